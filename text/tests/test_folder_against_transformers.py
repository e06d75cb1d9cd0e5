"""Tokenizer folders against AutoTokenizer.from_pretrained: classes, special tokens, added tokens, chat templates.

Folders are made here: tokenizers of several kinds with the settings, classes and kinds of models that people have. What
transformers loads has to be what the tool loads, and both have to encode the same texts to the same tokens.
RINGSHARD_TEST_SEED repeats a run.
"""

import json
import os
import pathlib
import random
import sys
import tempfile
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
try:
    from transformers import AutoTokenizer
    from test_against_package import QWEN2, SEED, ask, build, byte_level, kinds, random_text, sentencepiece, split_then_bytes
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CLASSES = [None, "PreTrainedTokenizerFast", "TokenizersBackend", "Qwen2Tokenizer", "Qwen2TokenizerFast", "LlamaTokenizer",
           "LlamaTokenizerFast", "GPT2Tokenizer", "GPT2TokenizerFast", "NobodyKnowsTokenizer"]
MODELS = [None, "llama", "qwen2", "qwen3", "mistral", "gpt2"]
MODEL_CONFIGS = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
TOKENS = ["<s>", "</s>", "<unk>", "<|im_end|>", "<|endoftext|>", "<|pad|>", "abc"]


def added(content, **flags):
    return {"__type": "AddedToken", "content": content, "lstrip": False, "normalized": False, "rstrip": False,
            "single_word": False, "special": True} | flags


def random_config(rng, size):
    config = {}
    for key in ("bos_token", "eos_token", "unk_token", "pad_token", "mask_token"):
        chance = rng.random()
        if chance < 0.5:
            config[key] = rng.choice(TOKENS)
        elif chance < 0.6:
            config[key] = None
        elif chance < 0.7:
            config[key] = added(rng.choice(TOKENS), lstrip=rng.random() < 0.3)
    if rng.random() < 0.3:
        config["image_token"] = "<image>"
    if rng.random() < 0.4:
        config[rng.choice(["additional_special_tokens", "extra_special_tokens"])] = rng.sample(["<a>", "<b>", "<|im_end|>"], 2)
    elif rng.random() < 0.2:
        config["extra_special_tokens"] = {"video_token": "<video>"}
    if rng.random() < 0.4:
        config["added_tokens_decoder"] = {
            str(size + i): added(content, special=rng.random() < 0.7, rstrip=rng.random() < 0.2) | {"__type": None}
            for i, content in enumerate(rng.sample(["<|im_end|>", "<|im_start|>", "<new>", "abc"], 3))}
        for token in config["added_tokens_decoder"].values():
            del token["__type"]
    for key, values in {"add_prefix_space": [True, False], "legacy": [True, False], "add_bos_token": [True, False],
                        "add_eos_token": [True, False], "clean_up_tokenization_spaces": [True, False]}.items():
        if rng.random() < 0.3:
            config[key] = rng.choice(values)
    return config


def write(folder, rng, tokenizer):
    """A folder, and whether there is a chat template file in it."""
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = random_config(rng, tokenizer.get_vocab_size())
    name, model = rng.choice(CLASSES), rng.choice(MODELS)
    if name is None and model is None:
        name = "PreTrainedTokenizerFast"  # transformers needs one of them
    if name is not None:
        config["tokenizer_class"] = name
    if rng.random() < 0.5:
        config["chat_template"] = rng.choice([
            "{{ messages }}", [{"name": "default", "template": "{{ 1 }}"}, {"name": "tool_use", "template": "{{ 2 }}"}]])
    if rng.random() < 0.4:
        (folder / "chat_template.jinja").write_bytes(b"{{ bos_token }}\r\n{%- for m in messages %}\n{{ m }}{% endfor %}")
    if rng.random() < 0.2:
        (folder / "additional_chat_templates").mkdir()
        (folder / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools }}")
    if rng.random() < 0.3:
        (folder / "special_tokens_map.json").write_text(json.dumps({
            "eos_token": rng.choice(["</s>", {"content": "<|im_end|>", "lstrip": True, "normalized": False, "rstrip": False,
                                              "single_word": False}])}))
    if rng.random() < 0.2:
        (folder / "added_tokens.json").write_text(json.dumps({"<late>": tokenizer.get_vocab_size() + 5}))
    if model is not None:
        (folder / "config.json").write_text(json.dumps(MODEL_CONFIGS | {"model_type": model}))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return json.dumps(config) + f" model_type={model}" + str(sorted(p.name for p in folder.iterdir()))


class AgainstTransformers(unittest.TestCase):
    maxDiff = None

    def test_folders(self):
        rng = random.Random(SEED)
        corpus = [random_text(rng) for _ in range(800)]
        all_kinds = kinds()
        tokenizers = [build(all_kinds[name], corpus) for name in ("qwen2", "llama3", "gpt2_prefix", "sp_legacy", "sp_first")]
        print(f"seed {SEED}", flush=True)
        with tempfile.TemporaryDirectory() as parent:
            for number in range(int(os.environ.get("RINGSHARD_TEST_FOLDERS", 150))):
                folder = pathlib.Path(parent) / str(number)
                what = write(folder, rng, rng.choice(tokenizers))
                texts = [random_text(rng) for _ in range(8)] + ["a<image> <|im_end|>  <new> </s> x", " <a>b<late>"]
                try:
                    wanted = AutoTokenizer.from_pretrained(folder)
                except Exception as error:  # what transformers cannot read, nobody has to
                    if os.environ.get("RINGSHARD_TEST_VERBOSE"):
                        print(type(error), error, what)
                    continue
                head, *answers = ask(folder, [{"text": text} for text in texts])
                with self.subTest(number):
                    self.assertNotIn("refused", head, what)
                    self.assertEqual(head["special_tokens"], [
                        [name, text, wanted.convert_tokens_to_ids(text) if wanted.convert_tokens_to_ids(text) is not None else -1]
                        for name, text in wanted.special_tokens_map.items()], what)
                    self.assertEqual(head["extra_special_tokens"], [str(t) for t in wanted.extra_special_tokens], what)
                    template = wanted.chat_template
                    self.assertEqual(head["chat_templates"], template if isinstance(template, dict) else
                                     {} if template is None else {"default": template}, what)
                    self.assertEqual(head["vocab_size"], len(wanted), what)
                    for text, answer in zip(texts, answers):
                        self.assertEqual(answer["ids"], wanted(text)["input_ids"], f"{what}: {text!r}")
                        self.assertEqual(answer["decoded_skip_special"],
                                         wanted.decode(answer["ids"], skip_special_tokens=True), f"{what}: {text!r}")


if __name__ == "__main__":
    unittest.main()

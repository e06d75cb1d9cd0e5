"""Models that transformers makes from their configs: one step's loss and gradient, here and there."""

import importlib.util
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from beside_transformers import FOLDER, MODELS, TrainerTest, read_config, read_steps, run, some_of

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, MistralConfig, Olmo2Config, Phi3Config, Qwen2Config, Qwen2MoeConfig, Qwen3Config

SIZES = dict(vocab_size=160, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256)
QWEN2 = os.path.join(MODELS, "qwen2-tiny")
TEXTS = os.path.join(FOLDER, "..", "..", "configs", "examples", "tiny", "notes.jsonl")
YARN = {"rope_type": "yarn", "rope_theta": 5e4, "factor": 4.0, "original_max_position_embeddings": 32}


def rope(rope_type, **values):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10000.0, **values}}


CASES = {
    "llama": LlamaConfig(**SIZES),
    "llama with biases": LlamaConfig(**SIZES, attention_bias=True),
    "llama, wide heads": LlamaConfig(**SIZES, head_dim=32, tie_word_embeddings=True),
    "llama, a padding token": LlamaConfig(**SIZES, pad_token_id=7),
    "linear": LlamaConfig(**SIZES, **rope("linear", factor=3.0)),
    "llama3": LlamaConfig(**SIZES, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                          original_max_position_embeddings=64)),
    "yarn": Qwen2Config(**SIZES, rope_parameters=YARN),
    "yarn with weights": Qwen2Config(**SIZES, rope_parameters={
        **YARN, "mscale": 0.7, "mscale_all_dim": 1.2, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}),
    "yarn with its scaling": Qwen2Config(**SIZES, rope_parameters={**YARN, "attention_factor": 1.3}),
    "qwen3": Qwen3Config(**SIZES, head_dim=16),
    "qwen3 with biases": Qwen3Config(**SIZES, head_dim=20, attention_bias=True, tie_word_embeddings=True),
    "qwen2 with an idle window": Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=4, max_window_layers=2),
    "qwen2 with a window in its second layer": Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=9, max_window_layers=1),
    "qwen3 with windows by layer types": Qwen3Config(**SIZES, head_dim=16, use_sliding_window=True, sliding_window=20,
                                                     layer_types=["sliding_attention", "full_attention"]),
    "qwen2_moe with a window in its first layer": Qwen2MoeConfig(
        **SIZES, use_sliding_window=True, sliding_window=9, max_window_layers=2, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=24, shared_expert_intermediate_size=24, router_aux_loss_coef=0.0),
    "mistral": MistralConfig(**SIZES, sliding_window=64),
    "mistral with a narrow window": MistralConfig(**SIZES, sliding_window=7),
    "olmo2": Olmo2Config(**SIZES, pad_token_id=None),
    "olmo2 with biases, tied": Olmo2Config(**SIZES, pad_token_id=7, attention_bias=True, tie_word_embeddings=True),
    "phi3": Phi3Config(**SIZES, pad_token_id=None),
    "phi3, a padding token, tied": Phi3Config(**SIZES, pad_token_id=7, tie_word_embeddings=True, sliding_window=31),
}


def make_model(config, folder):
    torch.manual_seed(11)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(1.0, 0.3)
            else:
                parameter.normal_(0.0, 0.15)
    model.save_pretrained(folder)
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)


def their_step(model, rows):
    """Loss per target and the norm of its gradient."""
    count = sum(len(row) - 1 for row in rows)
    total = 0.0
    for row in rows:
        ids = torch.tensor([row])
        logits = model(input_ids=ids).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum") / count
        loss.backward()
        total += loss.item()
    squares = sum(parameter.grad.double().square().sum() for parameter in model.parameters())
    return total, squares.sqrt().item()


def older_spelling(folder, has_layer_types):
    """rope_theta and rope_scaling with `type`, as files of earlier releases have them, which had no layer_types."""
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {**rope, "type": kind}
    config["torch_dtype"] = config.pop("dtype")
    if not has_layer_types:
        config.pop("layer_types", None)
    with open(path, "w") as file:
        json.dump(config, file)


def draw_rows(folder):
    draw = random.Random(5)
    rows = [[draw.randrange(SIZES["vocab_size"]) for _ in range(length)] for length in (60, 17, 41, 33)]
    rows[1][5] = CASES["llama, a padding token"].pad_token_id
    rows_file = os.path.join(folder, "rows.jsonl")
    with open(rows_file, "w") as file:
        file.writelines(json.dumps({"input_ids": row}) + "\n" for row in rows)
    return rows, rows_file


def change_config(folder, **changes):
    """Writes config.json again; None removes a field."""
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = {**json.load(file), **changes}
    with open(path, "w") as file:
        json.dump({name: value for name, value in config.items() if value is not None}, file)


class Models(TrainerTest):
    def train(self, folder, rows_file, output, *flags, ranks=None):
        result = run("train", "--model_name_or_path", folder, "--dataset_name", rows_file, "--bf16", "false",
                     "--max_steps", "1", "--logging_steps", "1", "--save_strategy", "no", "--output_dir", output, *flags,
                     ranks=ranks)
        self.expect(result, 0)
        return result

    def our_step(self, folder, rows_file, *flags, ranks=None):
        with tempfile.TemporaryDirectory() as output:
            self.train(folder, rows_file, output, *flags, ranks=ranks)
            line = read_steps(output)[0]
            return line["loss"], line["grad_norm"]

    def check(self, ours, theirs):
        self.assertAlmostEqual(ours[0], theirs[0], delta=2e-6)
        self.assertAlmostEqual(ours[1], theirs[1], delta=1e-5 * theirs[1])

    def test_a_step_of_every_model(self):
        for number, (name, config) in enumerate(some_of(list(CASES.items()))):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                rows, rows_file = draw_rows(folder)
                theirs = their_step(make_model(config, folder), rows)
                self.check(self.our_step(folder, rows_file), theirs)
                older_spelling(folder, "by layer types" in name)
                split = ("--cp_size", "--sp_size")[number % 2]
                self.check(self.our_step(folder, rows_file, "--profile", "zero3", split, "2", ranks=2), theirs)

    def test_a_head_beside_the_embedding_that_config_json_ties(self):
        """transformers compares the two tensors: it ties equal ones, and keeps others apart."""
        differs = "but lm_head.weight and model.embed_tokens.weight differ"
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as output:
            rows, rows_file = draw_rows(folder)
            apart = make_model(LlamaConfig(**SIZES), folder)
            change_config(folder, tie_word_embeddings=True)
            apart = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
            self.assertFalse(torch.equal(apart.lm_head.weight, apart.model.embed_tokens.weight))
            theirs = their_step(apart, rows)
            self.check(self.our_step(folder, rows_file), theirs)
            zero3 = ("--profile", "zero3", "--cp_size", "2", "--save_strategy", "steps", "--save_steps", "1")
            result = self.train(folder, rows_file, output, *zero3, ranks=2)
            self.expect(result, 0, differs)
            self.assertEqual(result.stderr.count(differs), 1)
            self.check((read_steps(output)[0]["loss"], read_steps(output)[0]["grad_norm"]), theirs)
            for written in (output, os.path.join(output, "checkpoint-1")):
                self.assertIs(read_config(written)["tie_word_embeddings"], False)
            trained = AutoModelForCausalLM.from_pretrained(output)
            self.assertFalse(torch.equal(trained.lm_head.weight, trained.model.embed_tokens.weight))
            self.expect(self.train(folder, rows_file, output, *zero3[:4], "--max_steps", "2", "--allow_changed", ranks=2), 0,
                        "resuming from")
            exported = os.path.join(output, "exported")
            self.expect(run("export", os.path.join(output, "checkpoint-1"), "--output_dir", exported), 0)
            for name, weight in AutoModelForCausalLM.from_pretrained(exported).named_parameters():
                self.assertTrue(torch.equal(weight, trained.get_parameter(name)), name)

            # Where the run goes on from a checkpoint, that tells whether they are two weights.
            os.remove(os.path.join(folder, "model.safetensors"))
            self.expect(self.train(folder, rows_file, output, *zero3[:4], "--max_steps", "3", "--allow_changed", ranks=2), 0,
                        "resuming from")
            self.assertIs(read_config(output)["tie_word_embeddings"], False)
            self.assertIn("lm_head.weight", load_file(os.path.join(output, "model.safetensors")))
            elsewhere = self.train(folder, rows_file, output + "-2", *zero3[:4], "--max_steps", "3", "--allow_changed",
                                   "--resume_from_checkpoint", os.path.join(output, "checkpoint-1"), ranks=2)
            self.expect(elsewhere, 0, "resuming from")
            self.assertIs(read_config(output + "-2")["tie_word_embeddings"], False)
            shutil.rmtree(output + "-2")

            apart.lm_head.weight.data.copy_(apart.model.embed_tokens.weight.data)
            apart.config.tie_word_embeddings = False
            apart.save_pretrained(folder)
            change_config(folder, tie_word_embeddings=True)
            with safe_open(os.path.join(folder, "model.safetensors"), "pt") as file:
                self.assertIn("lm_head.weight", file.keys())
            theirs = their_step(AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager"), rows)
            self.check(self.our_step(folder, rows_file), theirs)
            with tempfile.TemporaryDirectory() as tied:
                self.assertNotIn(differs, self.train(folder, rows_file, tied, "--profile", "zero3", ranks=2).stderr)
                self.assertIs(read_config(tied)["tie_word_embeddings"], True)

    def test_a_tied_head_that_is_stored_without_the_embedding(self):
        """transformers ties the embedding to it."""
        with tempfile.TemporaryDirectory() as folder:
            rows, rows_file = draw_rows(folder)
            theirs = their_step(make_model(LlamaConfig(**SIZES, tie_word_embeddings=True), folder), rows)
            weights = load_file(os.path.join(folder, "model.safetensors"))
            weights["lm_head.weight"] = weights.pop("model.embed_tokens.weight")
            save_file(weights, os.path.join(folder, "model.safetensors"), {"format": "pt"})
            again = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
            self.assertEqual(their_step(again, rows), theirs)
            self.check(self.our_step(folder, rows_file), theirs)
            self.check(self.our_step(folder, rows_file, "--profile", "zero3", "--cp_size", "2", ranks=2), theirs)

    def test_a_config_that_names_its_model_once(self):
        """transformers needs model_type, other readers look for architectures: the result has both."""
        with tempfile.TemporaryDirectory() as folder:
            rows, rows_file = draw_rows(folder)
            theirs = their_step(make_model(CASES["qwen3"], folder), rows)
            whole = {name: value for name, value in read_config(folder).items() if value is not None}
            for missing in ("architectures", "model_type"):
                with self.subTest(missing), tempfile.TemporaryDirectory() as output:
                    change_config(folder, **{**whole, missing: None})
                    self.train(folder, rows_file, output)
                    self.check((read_steps(output)[0]["loss"], read_steps(output)[0]["grad_norm"]), theirs)
                    self.assertEqual({**whole, "dtype": "float32"}, read_config(output))
                    self.assertEqual(type(AutoModelForCausalLM.from_pretrained(output)).__name__, "Qwen3ForCausalLM")

    def convert(self, folder, words, ranks=None):
        """Runs the command that the refusal names, and returns the last word of it."""
        result = run("train", "--model_name_or_path", folder, "--dataset_name", TEXTS, "--output_dir", folder + "-run",
                     ranks=ranks)
        self.expect_one_message(result, 65, words)
        command = re.search(r"python -c .*", result.stderr)[0]
        command = shlex.split(command)
        subprocess.run([sys.executable, *command[1:]], check=True, capture_output=True)
        return command[-1]

    def test_the_command_that_converts_pickled_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "a model's")  # quoted for the shell
            shutil.copytree(QWEN2, model)
            weights = load_file(os.path.join(model, "model.safetensors"))
            torch.save(weights, os.path.join(model, "pytorch_model.bin"))
            os.remove(os.path.join(model, "model.safetensors"))
            converted = self.convert(model, "holds pytorch_model.bin and no safetensors", ranks=2)
            self.assertEqual(converted, model + "-safetensors")
            written = load_file(os.path.join(converted, "model.safetensors"))
            for name, weight in weights.items():
                self.assertTrue(torch.equal(written.get(name, written["model.embed_tokens.weight"]), weight), name)
            self.train(converted, TEXTS, os.path.join(folder, "run"))

    def test_the_command_that_writes_tokenizer_json(self):
        texts = ["There are 3 windows.\n\n  It's <|im_start|>user", "na\u00efve caf\u00e9 \u4f60\u597d\U0001f600"]
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            shutil.copytree(QWEN2, model)
            with open(os.path.join(model, "tokenizer.json")) as file:
                tokenizer = json.load(file)
            os.remove(os.path.join(model, "tokenizer.json"))
            with open(os.path.join(model, "vocab.json"), "w") as file:
                json.dump(tokenizer["model"]["vocab"], file)
            with open(os.path.join(model, "merges.txt"), "w") as file:
                file.writelines(" ".join(pair) + "\n" for pair in tokenizer["model"]["merges"])
            keys = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
            with open(os.path.join(model, "tokenizer_config.json"), "w") as file:
                json.dump({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "added_tokens_decoder": {
                    token["id"]: {key: token[key] for key in keys} for token in tokenizer["added_tokens"]}}, file)
            theirs = AutoTokenizer.from_pretrained(model)
            self.convert(model, "holds vocab.json, and neither tokenizer.json nor tekken.json")
            ours = run("tokenize", "--model_name_or_path", model, stdin="".join(json.dumps({"text": t}) + "\n" for t in texts))
            self.expect(ours, 0)
            for text, line in zip(texts, ours.stdout.splitlines(), strict=True):
                self.assertEqual(json.loads(line)["ids"], theirs(text)["input_ids"])

    @unittest.skipUnless(importlib.util.find_spec("peft"), "peft is not installed")
    def test_the_command_that_merges_an_adapter(self):
        import peft

        with tempfile.TemporaryDirectory() as folder:
            adapter = os.path.join(folder, "adapter")
            lora = peft.LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False)
            model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(QWEN2, dtype=torch.float32), lora)
            model.save_pretrained(adapter)
            AutoTokenizer.from_pretrained(QWEN2).save_pretrained(adapter)
            merged = self.convert(adapter, "is an adapter (adapter_config.json), and a whole model is needed")
            wanted = model.merge_and_unload().state_dict()
            for name, weight in AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32).state_dict().items():
                torch.testing.assert_close(weight, wanted[name])
            self.train(merged, TEXTS, os.path.join(folder, "run"))


if __name__ == "__main__":
    unittest.main()

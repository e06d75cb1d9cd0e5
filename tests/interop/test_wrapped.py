"""Wrapped models: their text model is trained, all other tensors stay as they are, and transformers loads the result as their own class."""

import hashlib
import json
import os
import sys
import tempfile
import unittest

from beside_transformers import DATA, FOLDER, MODELS, TrainerTest, read_config, read_metrics, run, some_of
from devices import HOST

import torch
from peft import PeftModel
from peft.utils.save_and_load import load_peft_weights, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText

sys.path.insert(0, os.path.join(FOLDER, "..", "parity"))
sys.path.insert(0, os.path.join(FOLDER, "..", "parity", "generator"))
from family_configs import CONFIGS, of_vocabulary  # noqa: E402
from family_models import add_tokenizer  # noqa: E402

ROWS = os.path.join(DATA, "rows", "pretokenized.jsonl")
KINDS = ["mistral3-mistral", "mistral3-mistral4", "gemma3-wrapped", "gemma4-wrapped", "gemma4-per-layer-wrapped",
         "qwen3_vl", "qwen3_5-wrapped", "qwen2_5_vl", "llava", "qwen3_vl_moe"]
SMALL_FILES = {"preprocessor_config.json": {"image_processor_type": "SomeImageProcessor"},
               "processor_config.json": {"processor_class": "Some"}}


# What releases say of their text models, and how many weights these have.
RELEASES = {
    "gemma3": ({"mm_tokens_per_image": 256, "text_config": {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}}, 3880263168),
    "llava": ({"text_config": {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096, "model_type": "llama",
                               "rms_norm_eps": 1e-05, "vocab_size": 32064}}, 6738939904),
    "qwen2_5_vl": ({"hidden_size": 2048, "intermediate_size": 11008, "max_position_embeddings": 128000, "num_attention_heads": 16,
                    "num_hidden_layers": 36, "num_key_value_heads": 2, "rope_theta": 1000000.0, "tie_word_embeddings": True,
                    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vocab_size": 151936}, 3085938688)}


def is_of_text(name):
    """Of the text model, by any of its names in files."""
    return name.startswith(("language_model.", "model.language_model.", "lm_head.", "model.layers.", "model.norm.", "model.embed_tokens."))


def make_model(kind, folder):
    torch.manual_seed(1)
    given = CONFIGS[kind]
    config = AutoConfig.for_model(**{**given, "text_config": of_vocabulary(given["text_config"], 512)})
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    if kind == "qwen3_5-wrapped":  # the part that predicts more tokens, which transformers does not load
        file = os.path.join(folder, "model.safetensors")
        more = {"mtp.fc.weight": (64, 32), "mtp.layers.0.self_attn.q_proj.weight": (128, 32), "mtp.norm.weight": (32,)}
        save_file({**load_file(file), **{name: torch.randn(size).bfloat16() for name, size in more.items()}}, file, metadata={"format": "pt"})
    add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), folder)
    for name, content in SMALL_FILES.items():
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file)


def tensors_of(folder):
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            tensors |= load_file(os.path.join(folder, name))
    return tensors


def digests(folder):
    return {name: (tensor.dtype, hashlib.sha256(tensor.view(torch.uint8).numpy().tobytes()).hexdigest())
            for name, tensor in tensors_of(folder).items() if not is_of_text(name)}


def some_rows():
    with open(ROWS) as file:
        return [file.readline() for _ in range(12)]


def eval_loss(model, length=48):
    total = count = 0
    with torch.no_grad():
        for line in some_rows():
            row = json.loads(line)
            ids = torch.tensor([row["input_ids"][:length]])
            labels = torch.tensor(row.get("labels", row["input_ids"])[:length])[1:]
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
            total += torch.nn.functional.cross_entropy(logits, labels, reduction="sum", ignore_index=-100).item()
            count += int((labels != -100).sum())
    return total / count


class Wrapped(TrainerTest):
    def load(self, folder):
        model, report = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(report[kind], kind)
        return model.eval()

    def train(self, model, output, *flags, ranks=None, fails=0, says=()):
        if "--eval_strategy" in flags:
            rows = output + "-rows.jsonl"
            with open(rows, "w") as file:
                file.writelines(some_rows())
            flags = (*flags, "--eval_steps", "2", "--eval_dataset_name", rows)
        self.expect(run("train", "--model_name_or_path", model, "--output_dir", output, "--dataset_name", ROWS, "--max_length", "48",
                        "--max_steps", "2", "--learning_rate", "0.01", "--bf16", "false", "--profile", "zero3", "--save_steps", "2", *flags,
                        ranks=ranks), fails, *says)

    def check_result(self, model, output, dtype=torch.float32):
        """The finished folder is the wrapped model again, of which the text model alone has changed."""
        before, after = tensors_of(model), tensors_of(output)
        self.assertEqual(set(before), set(after))
        self.assertGreater(len(digests(model)), 3)
        self.assertEqual(digests(model), digests(output))
        for name, tensor in after.items():
            if is_of_text(name):
                self.assertEqual(tensor.dtype, dtype, name)
                is_trained = not name.endswith("layer_scalar")
                self.assertEqual(torch.equal(tensor.float(), before[name].float()), not is_trained, name)
        old, new = read_config(model), read_config(output)
        new["dtype"], new["text_config"]["dtype"] = old["dtype"], old["text_config"]["dtype"]
        if "router_aux_loss_coef" in old["text_config"]:
            self.assertTrue(new["text_config"]["output_router_logits"])  # the run adds the loss that balances experts
            new["text_config"]["output_router_logits"] = old["text_config"]["output_router_logits"]
        self.assertEqual(old, new)
        for name, content in SMALL_FILES.items():
            with open(os.path.join(output, name)) as file:
                self.assertEqual(json.load(file), content)
        return self.load(output)

    def test_training(self):
        for kind in some_of(KINDS):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                model, output, exported = (os.path.join(folder, name) for name in ("model", "out", "exported"))
                make_model(kind, model)
                self.train(model, output, "--save_model_in_checkpoints", "true", "--eval_strategy", "steps", ranks=2)
                ours = next(line["eval_loss"] for line in read_metrics(output) if "eval_loss" in line)
                self.assertAlmostEqual(eval_loss(self.check_result(model, output)), ours, delta=1e-5 * ours)
                checkpoint = os.path.join(output, "checkpoint-2")
                self.check_result(model, checkpoint)
                self.expect(run("export", checkpoint, "--dtype", "bfloat16", "--output_dir", exported), 0)
                self.check_result(model, exported, torch.bfloat16)

    def test_template_of_the_processor(self):
        """chat_template.json, where older processors keep the template, gives the tokens of chat_template.jinja."""
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            make_model("llava", model)
            chat = ["--dataset_name", os.path.join(DATA, "rows", "chat.jsonl"), "--save_strategy", "no"]
            self.train(model, os.path.join(folder, "jinja"), *chat)
            template = os.path.join(model, "chat_template.jinja")
            with open(template) as file, open(os.path.join(model, "chat_template.json"), "w") as written:
                json.dump({"chat_template": file.read()}, written)
            os.remove(template)
            self.train(model, os.path.join(folder, "json"), *chat)
            losses = [[line["loss"] for line in read_metrics(os.path.join(folder, name)) if "loss" in line] for name in ("jinja", "json")]
            self.assertEqual(*losses)
            self.assertTrue(os.path.exists(os.path.join(folder, "json", "chat_template.json")))

    def test_one_rank_and_shards(self):
        """The other tensors lie in files of several sizes and types, and more ranks than tensors copy them."""
        with tempfile.TemporaryDirectory() as folder:
            model, output, exported = (os.path.join(folder, name) for name in ("model", "out", "exported"))
            make_model("gemma3-wrapped", model)
            tensors = tensors_of(model)
            tensors = {name: tensor if is_of_text(name) else tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
            save_file(tensors, os.path.join(model, "model.safetensors"), metadata={"format": "pt"})
            self.train(model, output)
            self.check_result(model, output)
            self.expect(run("export", output, "--max_shard_size", "20KB", "--dtype", "float32", "--output_dir", exported, ranks=4), 0)
            self.assertGreater(len([name for name in os.listdir(exported) if name.endswith(".safetensors")]), 3)
            self.check_result(model, exported)
            # A checkpoint as the beginning of another run: its base holds what it does not.
            again = os.path.join(folder, "again")
            self.train(os.path.join(output, "checkpoint-2"), again, "--freeze", r"language_model\.layers\.[01]\.mlp", ranks=2)
            self.assertEqual(digests(model), digests(again))
            self.load(again)
            # Other tensors than those of the run are not taken for them.
            name = next(name for name, tensor in tensors.items() if not is_of_text(name))
            tensors[name].view(-1)[0] += 1
            save_file(tensors, os.path.join(model, "model.safetensors"), metadata={"format": "pt"})
            self.expect_one_message(run("export", output, "--output_dir", os.path.join(folder, "changed")), 65,
                                    "was made beside other tensors that pass through unchanged")

    def test_names_of_transformers_5(self):
        """Files with the names that the modules have in transformers 5."""
        with tempfile.TemporaryDirectory() as folder:
            model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
            make_model("mistral3-mistral", model)
            state = self.load(model).state_dict()
            save_file(dict(state), os.path.join(model, "model.safetensors"), metadata={"format": "pt"})
            self.train(model, output)
            self.assertEqual(set(tensors_of(output)), set(state))
            self.load(output)

    def test_adapters(self):
        with tempfile.TemporaryDirectory() as folder:
            model, output, scores, merged = (os.path.join(folder, name) for name in ("model", "out", "scores", "merged"))
            make_model("gemma3-wrapped", model)
            self.train(model, output, "--use_peft", "--lora_r", "4", "--lora_target_modules", "q_proj,down_proj", "--lora_modules_to_save",
                       "embed_tokens", "--eval_strategy", "steps", ranks=2)
            base = self.load(model)
            adapted = PeftModel.from_pretrained(base, output)
            found = set_peft_model_state_dict(adapted, load_peft_weights(output))
            self.assertEqual(found.unexpected_keys, [])
            self.assertEqual([name for name in found.missing_keys if "lora_" in name or "modules_to_save" in name], [])
            self.assertFalse([name for name, _ in adapted.named_parameters() if "lora_" in name and "language_model" not in name])
            ours = next(line["eval_loss"] for line in read_metrics(output) if "eval_loss" in line)
            self.assertAlmostEqual(eval_loss(adapted.eval()), ours, delta=1e-5 * ours)
            self.expect(run("score", "--model_name_or_path", model, "--adapter_name_or_path", output, "--dataset_name", ROWS, "--bf16",
                            "false", "--output_dir", scores), 0)
            self.expect(run("export", os.path.join(output, "checkpoint-2"), "--merge", "true", "--dtype", "float32", "--output_dir", merged,
                            ranks=2), 0)
            self.assertEqual(digests(model), digests(merged))
            self.assertAlmostEqual(eval_loss(self.load(merged)), ours, delta=1e-5 * ours)

    def test_configs_of_releases(self):
        """They leave out sizes, or hold the fields of the text model at the top."""
        for kind, (fields, weights) in RELEASES.items():
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "config.json"), "w") as file:
                    json.dump({"model_type": kind, **fields}, file)
                result = run("plan", "--model_name_or_path", folder, "--world", "8", "--gpu", "h100-80", "--profile", "zero3",
                             "--max_length", "256", "--per_device_train_batch_size", "1", "--json")
                self.expect(result, 0)
                self.assertEqual(json.loads(result.stdout)["checkpoint_bytes"], 12 * weights)  # fp32 and two moments

    def test_a_random_model(self):
        """Of the text model alone: it trains, and the result has the wrapped model's names."""
        with tempfile.TemporaryDirectory() as folder:
            made, model, output = (os.path.join(folder, name) for name in ("made", "model", "out"))
            make_model("mistral3-mistral", made)
            self.expect(run("init", "--config_json", os.path.join(made, "config.json"), "--output_dir", model), 0)
            self.train(model, output, ranks=2)
            self.assertEqual(set(tensors_of(output)), set(tensors_of(model)))
            self.assertEqual({name for name in self.loads_without_the_rest(output) if is_of_text(name)}, set())

    def loads_without_the_rest(self, folder):
        _, report = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
        self.assertFalse(report["unexpected_keys"] or report["mismatched_keys"])
        return report["missing_keys"]

    def test_plan(self):
        """A rank holds what the plan says, and nothing of a large tower; files are as large as the plan says."""
        with tempfile.TemporaryDirectory() as folder:
            model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
            make_model("llava", model)
            flags = ("--save_model_in_checkpoints", "true", "--logging_steps", "1", "--dtype", "float32")
            plans, peaks = [], []
            for tower in (0, 1 << 26):
                if tower:
                    file = os.path.join(model, "model.safetensors")
                    tensors = load_file(file)
                    save_file({**tensors, "vision_tower.large": torch.ones(tower)}, file, metadata={"format": "pt"})
                others = sum(tensor.nbytes for name, tensor in tensors_of(model).items() if not is_of_text(name))
                with open(os.path.join(folder, "rows.jsonl"), "w") as file:
                    file.writelines(json.dumps({"input_ids": list(range(48))}) + "\n" for _ in range(16))
                self.expect(run("train", "--model_name_or_path", model, "--output_dir", output + str(tower), "--dataset_name", file.name,
                                "--max_length", "48", "--max_steps", "2", "--bf16", "false", "--profile", "zero3", "--save_steps", "2",
                                "--per_device_train_batch_size", "2", *flags, ranks=2), 0)
                result = run("plan", "--model_name_or_path", model, "--world", "2", "--gpu", HOST if tower else "cpu",
                             "--max_length", "48", "--bf16", "false", "--profile", "zero3", "--per_device_train_batch_size", "2", *flags, "--json")
                self.expect(result, 0)
                plans.append(json.loads(result.stdout))
                self.assertEqual(plans[-1]["passed_bytes"], others)
                step = [line for line in read_metrics(output + str(tower)) if "loss" in line][-1]
                peaks.append(step["peak_memory_bytes"])
                held = {kind: step[f"memory_{kind}_bytes"] for kind in plans[-1]["memory_bytes"] if kind != "save_copy"}
                planned = sum(plans[-1]["memory_bytes"][kind] for kind in held)
                self.assertLess(abs(planned - sum(held.values())), 0.02 * planned, (plans[-1]["memory_bytes"], held))
                saved = os.path.join(output + str(tower), "checkpoint-2")
                written = sum(os.path.getsize(os.path.join(saved, name)) for name in ("model.safetensors", "state.h5"))
                self.assertLess(abs(written - plans[-1]["checkpoint_bytes"]), 100_000)  # headers
            self.assertEqual(plans[1]["checkpoint_bytes"] - plans[0]["checkpoint_bytes"], 4 << 26)
            self.assertEqual(plans[1]["memory_bytes"], plans[0]["memory_bytes"])
            self.assertLess(peaks[1] - peaks[0], 100e6)

    def test_what_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
            make_model("llava", model)
            whole = read_config(model)

            def with_config(**fields):
                with open(os.path.join(model, "config.json"), "w") as file:
                    json.dump({key: value for key, value in {**whole, **fields}.items() if value is not None}, file)

            with_config(text_config=None)
            self.train(model, output, fails=78, says=["config.json: text_config = null", "fields of the text model"])
            with_config(text_config={**whole["text_config"], "model_type": "mamba"})
            self.train(model, output, fails=78, says=["text_config: model_type = mamba", "one of afmoe, apertus"])
            with_config(text_config={**whole["text_config"], "hiden_act": "gelu"})
            self.train(model, output + "-warned", says=["config.json: text_config.hiden_act: no model of this program has such a field",
                                                        "hidden_act"])
            with_config(text_config={**whole["text_config"], "hidden_act": "tanh"})
            self.train(model, output, fails=78, says=["text_config: hidden_act = tanh"])
            with_config()
            self.expect(run("plan", "--model_name_or_path", model, "--dataset_name", ROWS, "--world", "2", "--gpu", HOST, "--max_length", "48"), 0)
            self.train(model, output, "--freeze", "vision_tower", fails=78, says=["matches no tensor of the model"])
            tensors = {name: tensor for name, tensor in tensors_of(model).items() if not is_of_text(name)}
            save_file(tensors, os.path.join(model, "model.safetensors"), metadata={"format": "pt"})
            self.train(model, output, fails=65, says=["hold no text model", "language_model.model.embed_tokens.weight"])


if __name__ == "__main__":
    unittest.main()

"""Hugging Face's own recipes for fine-tuning start as they are: 11 of alignment-handbook, 3 of open-r1.

hugging_face_recipes.json.gz has their settings; `chat_template: true` stands for a template of theirs in the file, and here for one of this
test. The hub's cache, in which the names of models and data sets are looked up, is made here: small random models of the same
architectures, and rows of the same form. A run ends after two steps.
"""

import gzip
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cli"))
from trainer import TrainerTest, read_steps, run  # noqa: E402

RECIPES = json.loads(gzip.decompress((HERE / "hugging_face_recipes.json.gz").read_bytes()))
TOKENIZER = HERE.parent / "parity" / "data" / "text" / "data" / "tokenizers" / "chatml"
TEMPLATE = ("{% for message in messages %}{% if message.role == 'assistant' %}<|im_start|>assistant\n{% generation %}{{ message.content }}"
            "<|im_end|>\n{% endgeneration %}{% else %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endif %}{% endfor %}")
SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
         "vocab_size": 1536, "max_position_embeddings": 131072, "bos_token_id": 1501, "eos_token_id": 1502, "pad_token_id": 1502}
MODELS = {"mistralai/Mistral": ("mistral", "Mistral", {"sliding_window": None}), "HuggingFaceTB/SmolLM3": ("smollm3", "SmolLM3", {}),
          "HuggingFaceTB/SmolLM": ("llama", "Llama", {}), "bigcode/starcoder2": ("starcoder2", "Starcoder2", {"sliding_window": None}),
          "google/gemma": ("gemma", "Gemma", {}), "": ("qwen2", "Qwen2", {})}


class Recipes(TrainerTest):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def snapshot(self, kind, name, revision="main"):
        """The folder of a model or a data set in the hub's cache."""
        root = self.home / "hub" / f"{kind}s--{name.replace('/', '--')}"
        (root / "refs").mkdir(parents=True, exist_ok=True)
        (root / "refs" / revision).write_text("abc")
        (root / "snapshots" / "abc").mkdir(parents=True, exist_ok=True)
        return root / "snapshots" / "abc"

    def make_model(self, recipe):
        name = recipe["model_name_or_path"]
        model_type, words, more = next(value for prefix, value in MODELS.items() if name.startswith(prefix))
        source = self.home / "source"
        shutil.copytree(TOKENIZER, source)
        (source / "config.json").write_text(json.dumps(SMALL | {"model_type": model_type, "architectures": [words + "ForCausalLM"]} | more))
        folder = self.snapshot("model", name, recipe["model_revision"])
        self.expect(run("init", "--config_json", str(source / "config.json"), "--output_dir", str(folder)), 0)

    def make_data(self, recipe):
        mixture = recipe.get("dataset_mixture", {}).get("datasets")
        if mixture is None:
            splits = {recipe.get("dataset_train_split", "train"), recipe.get("dataset_test_split", "test")}
            mixture = [{"id": recipe["dataset_name"], "config": recipe.get("dataset_config"), "split": split} for split in splits]
        rows = 600 if len(mixture) < 10 else 120  # test_split_size is 1000 where it is a number of rows
        files = {}
        for entry in mixture:
            files.setdefault(entry["id"], {}).setdefault(entry["config"] or "default", set()).add(entry["split"])
        for name, configs in files.items():
            folder = self.snapshot("dataset", name)
            card = ["---", "configs:"]
            for config, splits in configs.items():
                card += [f"- config_name: {config}", "  data_files:"]
                for split in sorted(splits):
                    card += [f"  - split: {split}", f"    path: {config}/{split}.jsonl"]
                    (folder / config).mkdir(exist_ok=True)
                    (folder / config / f"{split}.jsonl").write_text("".join(json.dumps(self.row(split, i)) + "\n" for i in range(rows)))
            (folder / "README.md").write_text("\n".join([*card, "---", ""]))

    @staticmethod
    def row(split, number):
        messages = [{"role": "user", "content": f"question {number} of {split}"}, {"role": "assistant", "content": f"answer {number * 7}"}]
        if number % 3 == 0:
            messages.insert(0, {"role": "system", "content": "You answer."})
        return {"messages": messages, "chat_template_kwargs": {"enable_thinking": number % 2 == 0}, "other": number}

    def start(self, name, recipe):
        self.make_model(recipe)
        self.make_data(recipe)
        settings = dict(recipe)
        if "chat_template" in settings:
            settings["chat_template"] = TEMPLATE
        file = self.home / f"{name}.yaml"
        file.write_text(json.dumps(settings))  # JSON is YAML
        result = run("train", "--config", str(file), "--max_steps", "2", "--use_cpu", cwd=self.home, HF_HOME=str(self.home))
        self.expect(result, 0, "done: step 2", "to upload the result: hf upload " + recipe.get("hub_model_id", ""))
        output = self.home / recipe["output_dir"]
        self.assertEqual(len(read_steps(output)), 2 if recipe["logging_steps"] == 1 else 0)
        self.assertTrue((output / ("adapter_model.safetensors" if recipe.get("use_peft") else "model.safetensors")).exists())
        for tracker in recipe["report_to"]:
            self.assertTrue((output / tracker).is_dir(), tracker)

    def test_all_start(self):
        self.assertEqual(len(RECIPES), 14)
        for name, recipe in RECIPES.items():
            with self.subTest(name):
                self.home = self.folder / name
                self.start(name, recipe)


if __name__ == "__main__":
    unittest.main()

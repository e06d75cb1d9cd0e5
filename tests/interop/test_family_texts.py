"""A random model of every family, trained for two steps: the greedy texts of the last evaluation are those that transformers
generates with the finished folder."""

import json
import os
import sys
import tempfile
import unittest

from beside_transformers import DATA, FOLDER, MODELS, TrainerTest, read_json, read_metrics, run

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

sys.path.insert(0, os.path.join(FOLDER, "..", "parity"))
sys.path.insert(0, os.path.join(FOLDER, "..", "parity", "generator"))
from family_configs import of_vocabulary  # noqa: E402
from family_models import add_tokenizer  # noqa: E402

ROWS = os.path.join(DATA, "rows", "chat.eval.jsonl")
PROMPTS = ["The ", "A longer beginning, which goes on for a while, over the window of some layers: one, two, three, four, five. "]
NEW = 16


def families():
    """One configuration for each architecture."""
    found = {}
    for name in sorted(os.listdir(os.path.join(DATA, "families"))):
        config = read_json(DATA, "families", name)["config"]
        config.pop("time_step_min", None)  # not of the steps of single tokens in transformers, which makes its texts with these
        found.setdefault(config["model_type"], config)
    return found


class FamilyTexts(TrainerTest):
    def write(self, name, rows):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write("\n".join(json.dumps(row) for row in rows))
        return path

    def expected(self, folder, is_wrapped):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        kind = AutoModelForImageTextToText if is_wrapped else AutoModelForCausalLM
        model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        texts = []
        for prompt in PROMPTS:
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            new = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, pad_token_id=0)
            new = new[0, ids.shape[1]:].tolist()
            if new[-1] == model.generation_config.eos_token_id:
                new.pop()
            texts.append(tokenizer.decode(new, clean_up_tokenization_spaces=False))
        return texts

    def check(self, config):
        vocabulary = len(AutoTokenizer.from_pretrained(os.path.join(MODELS, "qwen2-tiny")))
        def changed(fields):
            return {**of_vocabulary(fields, vocabulary), "initializer_range": 0.3}

        config = {**config, "text_config": changed(config["text_config"])} if "text_config" in config else changed(config)
        settings = self.write("config.json", [config])
        model, output = os.path.join(self.folder, "model"), os.path.join(self.folder, "out")
        self.expect(run("init", "--config_json", settings, "--output_dir", model), 0)
        add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), model)
        self.expect(run("train", "--model_name_or_path", model, "--dataset_name", ROWS, "--eval_dataset_name", ROWS, "--bf16", "false",
                        "--max_steps", "2", "--max_length", "32", "--learning_rate", "0.01", "--lr_scheduler_type", "constant",
                        "--eval_strategy", "steps", "--eval_steps", "2", "--save_strategy", "no", "--eval_prompts",
                        self.write("prompts.jsonl", [{"prompt": prompt} for prompt in PROMPTS]), "--eval_max_new_tokens", str(NEW),
                        "--data_cache_dir", os.path.join(self.folder, "cache"), "--output_dir", output), 0)
        samples = [line["eval_samples"] for line in read_metrics(output) if "eval_samples" in line]
        self.assertEqual(len(samples), 1)
        texts = [sample["text"] for sample in samples[0]]
        self.assertEqual(texts, self.expected(output, "text_config" in config))
        self.assertTrue(any(texts))

    def test_every_family(self):
        for model_type, config in families().items():
            with self.subTest(model_type), tempfile.TemporaryDirectory() as self.folder:
                self.check(config)


if __name__ == "__main__":
    unittest.main()

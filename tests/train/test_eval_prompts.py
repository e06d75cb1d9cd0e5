"""`--eval_prompts`: the greedy texts of transformers, token by token, in every layout."""

import json
import os
import shutil
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "..", "cli"), os.path.join(FOLDER, "..", "parity")]
from family_models import add_tokenizer, write_model  # noqa: E402
from trainer import TrainerTest, read_metrics, run, some_of  # noqa: E402

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
MODELS = os.path.join(DATA, "models")
ROWS = os.path.join(DATA, "rows", "chat.eval.jsonl")
NEW = 24
PROMPTS = [{"prompt": "The "},
           {"messages": [{"role": "user", "content": "How far is the harbour?"}]},
           {"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a bird."}]},
           {"text": "A longer beginning, with more than one sentence. It goes on for a while, over the window of some layers, "
                    "and says little: one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen."}]
LAYOUTS = [(None, []), (4, ["--profile", "zero3"])]
# Traces that differ from another of their family in the loss alone, or in its adapters.
REPEATED = {"mixtral-experts.json", "olmoe-router_aux_loss_coef.json", "qwen3_moe-experts.json"}


class EvalPrompts(TrainerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.prompts = self.write("prompts.jsonl", PROMPTS)

    def write(self, name, rows):
        file = os.path.join(self.folder, name)
        with open(file, "w") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in rows)
        return file

    def evaluate(self, model, *flags, ranks=None, prompts=None, output="out", fails=0, says=()):
        output = os.path.join(self.folder, output)
        result = run("train", "--model_name_or_path", model, "--dataset_name", ROWS, "--eval_dataset_name", ROWS, "--bf16", "false",
                     "--max_steps", "1", "--max_length", "32", "--per_device_eval_batch_size", "32", "--eval_on_start",
                     "--save_strategy", "no", "--eval_prompts", prompts or self.prompts, "--eval_max_new_tokens", str(NEW),
                     "--data_cache_dir", os.path.join(self.folder, "cache"), "--output_dir", output, *flags, ranks=ranks)
        self.expect(result, fails, *says)
        self.said = result.stderr
        for sample in [] if fails else read_metrics(output)[0]["eval_samples"]:
            self.assertIn(f" -> {json.dumps(sample['text'], ensure_ascii=False)}", self.said)
        return None if fails else read_metrics(output)[0]["eval_samples"]

    def expected(self, folder, prompts=PROMPTS):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        samples = []
        for row in prompts:
            given = row.get("prompt", row.get("messages", row.get("text")))
            text = given if isinstance(given, str) else tokenizer.apply_chat_template(given, tokenize=False, add_generation_prompt=True)
            ids = tokenizer(text, return_tensors="pt", add_special_tokens=isinstance(given, str)).input_ids
            with torch.no_grad():
                new = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW,
                                     pad_token_id=0)[0, ids.shape[1]:].tolist()
            ends = model.generation_config.eos_token_id
            ends = ends if isinstance(ends, list) else [ends]
            has_ended = new[-1] in ends
            samples.append({"prompt": text, "text": tokenizer.decode(new[:-1] if has_ended else new, clean_up_tokenization_spaces=False),
                            "num_tokens": len(new), "has_ended": has_ended})
        return samples

    def whole(self, name):
        """The folder of a model; one with windows has a config.json alone, and the files of mistral-tiny."""
        folder = os.path.join(MODELS, name)
        if os.path.exists(os.path.join(folder, "tokenizer.json")):
            return folder
        copy = shutil.copytree(os.path.join(MODELS, "mistral-tiny"), os.path.join(self.folder, name))
        shutil.copy(os.path.join(folder, "config.json"), copy)
        return copy

    def test_every_family(self):
        """In one layout each, in turn, and Qwen2 in all: a layout gathers modules and distributes prompts, whatever a family computes."""
        for turn, name in enumerate(["qwen2-tiny", *some_of(sorted(set(os.listdir(MODELS)) - {"qwen2-tiny"}))]):
            model = self.whole(name)
            has_template = AutoTokenizer.from_pretrained(model).chat_template is not None
            prompts = PROMPTS if has_template else [PROMPTS[0], PROMPTS[3]]
            expected = self.expected(model, prompts)
            for number, (ranks, flags) in enumerate(LAYOUTS if name == "qwen2-tiny" else [LAYOUTS[turn % len(LAYOUTS)]]):
                with self.subTest(model=name, flags=flags):
                    self.assertEqual(self.evaluate(model, *flags, ranks=ranks, output=f"{name}-{number}",
                                                   prompts=self.write("some.jsonl", prompts)), expected)

    def test_more_families(self):
        traces = os.path.join(DATA, "family_traces")
        for name in some_of(sorted(set(os.listdir(traces)) - set(REPEATED))):
            with open(os.path.join(traces, name)) as file:
                trace = json.load(file)
            trace["config"].pop("time_step_min", None)  # transformers' steps of single tokens leave it out
            model = os.path.join(self.folder, name)
            write_model(trace, model)
            add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), model)
            with self.subTest(family=name):
                self.assertEqual(self.evaluate(model, "--profile", "zero3", ranks=2, output=name + "-out"), self.expected(model))

    def test_texts_that_end_at_different_times(self):
        model = os.path.join(self.folder, "model")
        shutil.copytree(os.path.join(MODELS, "qwen2-tiny"), model)
        tokenizer = AutoTokenizer.from_pretrained(model)
        text = self.expected(model)[0]["text"]
        # A token of the first text ends texts from now on.
        end = tokenizer(text, add_special_tokens=False).input_ids[5]
        file = os.path.join(model, "generation_config.json")
        with open(file, "w") as config:
            json.dump({"eos_token_id": [end, tokenizer.eos_token_id]}, config)
        expected = self.expected(model)
        self.assertTrue(expected[0]["has_ended"] and expected[0]["num_tokens"] < NEW)
        samples = self.evaluate(model, "--cp_size", "2", "--sp_size", "2", "--profile", "zero3", ranks=4)
        self.assertEqual(samples, expected)

    def test_bad_input(self):
        model = os.path.join(MODELS, "qwen2-tiny")
        for rows, code, words in (([], 65, ["has no row"]),
                                  ([{"question": "Why?"}], 65, ["broken.jsonl:1", "has no column prompt, messages or text"]),
                                  ([{"prompt": 5}], 65, ["prompt is a number, where text or a list of messages is needed"]),
                                  ([{"prompt": ""}], 65, ["is an empty prompt"])):
            self.evaluate(model, prompts=self.write("broken.jsonl", rows), fails=code, says=["eval_prompts" if not rows else "", *words])
        self.evaluate(model, prompts="nowhere.jsonl", fails=66, says=["eval_prompts = nowhere.jsonl: there is no such file"])
        self.evaluate(model, "--eval_on_start", "false", fails=78, says=["eval_prompts", "eval_strategy"])
        self.evaluate(model, "--eval_prompts", "null", fails=78, says=["eval_max_new_tokens", "beside eval_prompts only"])
        self.evaluate(model, prompts=self.write("more.jsonl", [{"prompt": "The ", "completion": "end"}]), output="more",
                      says=["these columns are not read: completion"])


if __name__ == "__main__":
    unittest.main()

"""Weights of tokens: the numbers of transformers' model and autograd (generator/weighted.py), in every layout."""

import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, run  # noqa: E402

DATA = os.path.join(FOLDER, "data")
ROWS = os.path.join(DATA, "weighted", "rows.jsonl")
with open(os.path.join(DATA, "weighted", "trace.json")) as file:
    TRACE = json.load(file)
CHATS = os.path.join(DATA, "weighted", "messages.jsonl")
with open(os.path.join(DATA, "weighted", "messages_trace.json")) as file:
    CHATS_TRACE = json.load(file)
SETTINGS = ["--model_name_or_path", os.path.join(DATA, "models", TRACE["model"]), "--bf16", "false",
            "--learning_rate", str(TRACE["learning_rate"]), "--weight_decay", str(TRACE["weight_decay"]),
            "--max_grad_norm", str(TRACE["max_grad_norm"]), "--lr_scheduler_type", "constant",
            "--train_sampling_strategy", "sequential", "--num_train_epochs", "1", "--logging_steps", "1", "--save_strategy", "no"]


class Weights(TrainerTest):
    def train(self, *flags, ranks=None, rows=ROWS, fails=0, says=None):
        with tempfile.TemporaryDirectory() as output:
            result = run("train", *SETTINGS, "--dataset_name", rows, *flags, "--output_dir", output,
                         "--data_cache_dir", os.path.join(output, "data"), ranks=ranks)
            self.expect(result, fails, *([says] if says else []))
            return read_metrics(output) if fails == 0 else None

    def check(self, metrics, trace=TRACE):
        lines = [line for line in metrics if "loss" in line]
        for number, (ours, theirs) in enumerate(zip(lines, trace["steps"], strict=True)):
            for key, exact in (("loss", 1e-6), ("grad_norm", 1e-5), ("entropy", 1e-5)):
                if number > 0:
                    exact = 1e-4  # the updates of the weights before it differ in their last bits
                self.assertAlmostEqual(ours[key], theirs[key], delta=exact * theirs[key], msg=(number, key))
            self.assertAlmostEqual(ours["mean_token_accuracy"], theirs["mean_token_accuracy"], delta=0.01)

    def test_one_rank(self):
        self.check(self.train("--per_device_train_batch_size", "4"))
        self.check(self.train("--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"))

    def test_two_ranks(self):
        self.check(self.train("--per_device_train_batch_size", "2", "--profile", "zero1", ranks=2))
        self.check(self.train("--per_device_train_batch_size", "4", "--profile", "zero3", "--cp_size", "2", ranks=2))
        self.check(self.train("--per_device_train_batch_size", "4", "--profile", "fsdp2", "--sp_size", "2", ranks=2))

    # Of messages and rows, on conversations.
    def test_messages(self):
        flags = ["--roles_to_train", "assistant"]
        for ranks, layout in ((None, ["--per_device_train_batch_size", "4"]),
                              (None, ["--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"]),
                              (2, ["--per_device_train_batch_size", "2", "--profile", "zero1"]),
                              (2, ["--per_device_train_batch_size", "4", "--profile", "zero3", "--cp_size", "2"]),
                              (2, ["--per_device_train_batch_size", "4", "--profile", "fsdp2", "--sp_size", "2"])):
            with self.subTest(layout=layout):
                self.check(self.train(*flags, *layout, ranks=ranks, rows=CHATS), CHATS_TRACE)

    # Half the weights of the tokens, and rows of weight 2.
    def test_rows(self):
        with tempfile.TemporaryDirectory() as folder, open(ROWS) as rows:
            doubled = os.path.join(folder, "rows.jsonl")
            with open(doubled, "w") as file:
                for line in rows:
                    row = json.loads(line)
                    file.write(json.dumps(row | {"weights": [w / 2 for w in row["weights"]], "weight": 2}) + "\n")
            self.check(self.train("--per_device_train_batch_size", "4", rows=doubled))

    def test_evaluation(self):
        lines = self.train("--per_device_train_batch_size", "4", "--eval_strategy", "epoch", "--eval_dataset_name", ROWS,
                           "--cp_size", "2", ranks=2)
        evaluation = next(line for line in lines if "eval_loss" in line)
        self.assertAlmostEqual(evaluation["eval_loss"], TRACE["eval_loss"], delta=1e-4)

    def test_rows_that_are_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            for weights, says in (([1, 2], "has 2 weights for 3 input_ids"), ([1, -1, 1], "not below 0"),
                                  ([1, "x", 1], "where numbers are needed"), (3, "where a list is needed")):
                rows = os.path.join(folder, "rows.jsonl")
                with open(rows, "w") as file:
                    file.write(json.dumps({"input_ids": [5, 6, 7], "weights": weights}) + "\n")
                with self.subTest(weights=weights):
                    self.train(rows=rows, fails=65, says=says)


if __name__ == "__main__":
    unittest.main()

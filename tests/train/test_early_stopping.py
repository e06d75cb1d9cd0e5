"""A run that stops early: at which step, with which files, and what the same command does then."""

import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
# The entropy falls at once and grows from there, so the first evaluation is the best.
GROWING = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--dataset_name", os.path.join(DATA, "rows", "chat.jsonl"),
           "--eval_dataset_name", os.path.join(DATA, "rows", "chat.eval.jsonl"), "--bf16", "false", "--max_steps", "12",
           "--eval_strategy", "steps", "--eval_steps", "2", "--learning_rate", "0.08", "--lr_scheduler_type", "constant", "--logging_steps", "1",
           "--metric_for_best_model", "entropy", "--greater_is_better", "false", "--per_device_train_batch_size", "4"]


class EarlyStopping(TrainerTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = os.path.join(self.folder.name, "run")

    def train(self, *flags, ranks=None, **variables):
        return run("train", *GROWING, "--output_dir", self.output, *flags, ranks=ranks, **variables)

    def read(self, name):
        with open(os.path.join(self.output, name)) as file:
            return json.load(file)

    def check_stopped(self, result, step):
        self.expect(result, 0, f"early stopping after step {step} of 12: early_stopping_patience is 2, and eval_entropy was not better",
                    f"done: step {step}")
        self.assertEqual([line["step"] for line in read_steps(self.output)], list(range(1, step + 1)))
        self.assertEqual(read_metrics(self.output)[-1]["step"], step)
        self.assertIn("train_runtime", read_metrics(self.output)[-1])
        state = self.read("trainer_state.json")
        self.assertEqual((state["global_step"], state["max_steps"], state["best_global_step"]), (step, 12, 2))
        self.assertEqual(state["stateful_callbacks"]["EarlyStoppingCallback"],
                         {"args": {"early_stopping_patience": 2, "early_stopping_threshold": 0.0},
                          "attributes": {"early_stopping_patience_counter": 2}})

    def test_stops_and_is_complete(self):
        flags = ["--early_stopping_patience", "2", "--save_steps", "100"]
        self.check_stopped(self.train(*flags, ranks=2), 6)
        lines = read_metrics(self.output)
        again = self.train(*flags, ranks=2)
        self.expect(again, 0, "step 6 was the last one: this run is complete")
        self.assertEqual(read_metrics(self.output), lines)
        # Who is more patient goes on.
        self.expect(self.train("--early_stopping_patience", "4", "--save_steps", "100", ranks=2), 0, "early stopping after step 10 of 12")

    def test_the_count_survives_a_restart(self):
        flags = ["--early_stopping_patience", "2", "--save_steps", "4"]
        self.assertNotEqual(self.train(*flags, RINGSHARD_FAULT="step:6:kill").returncode, 0)
        self.check_stopped(self.train(*flags), 6)

    def test_one_of_several_sets_decides(self):
        rows = os.path.join(DATA, "rows")
        sets = {"train": os.path.join(rows, "chat.jsonl"), "chat": os.path.join(rows, "chat.eval.jsonl")}
        self.expect(self.train("--early_stopping_patience", "2", "--save_steps", "100", "--eval_dataset_name", json.dumps(sets),
                               "--metric_for_best_model", "chat_entropy"), 0,
                    "early stopping after step 6 of 12: early_stopping_patience is 2, and eval_chat_entropy was not better")

    def test_what_is_saved_last_has_moments(self):
        flags = ["--early_stopping_patience", "2", "--save_steps", "2", "--save_only_model"]
        self.check_stopped(self.train(*flags), 6)
        self.expect(self.train(*flags), 0, "this run is complete")

    def test_without_what_it_needs(self):
        self.expect(run("train", *GROWING, "--output_dir", self.output, "--early_stopping_patience", "2", "--eval_strategy", "no"), 78,
                    "early stopping goes by evaluations: give eval_strategy steps or epoch")
        self.expect(self.train("--early_stopping_patience", "2", "--metric_for_best_model", ""), 78, "early stopping compares a number")
        self.expect(self.train("--early_stopping_threshold", "0.1"), 78, "has a meaning beside early_stopping_patience only")
        self.expect(self.train("--early_stopping_patience", "0"), 78, "early_stopping_patience")


if __name__ == "__main__":
    unittest.main()

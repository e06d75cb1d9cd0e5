"""Numbers that go bad: steps that are skipped or done again, and replicas that are no longer equal."""

import os
import shutil
import socket
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
HOST = socket.gethostname()
COMMON = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"),
          "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false",
          "--max_length", "48", "--logging_steps", "1", "--full_determinism"]
CALM = ["--learning_rate", "0.002", "--max_steps", "9", "--save_steps", "3"]
# From the second step on nothing is a number.
WILD = ["--learning_rate", "1e38", "--max_steps", "9", "--max_grad_norm", "0"]
SPOILED = {"RINGSHARD_FAULT": "weights:5:nan@0"}


class BadNumbers(TrainerTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.output = os.path.join(self.folder.name, "out")

    def tearDown(self):
        self.folder.cleanup()

    def train(self, *flags, ranks=1, output=None, **variables):
        return run("train", *COMMON, *flags, "--output_dir", output or self.output, ranks=ranks, **variables)

    def expect_same_steps(self, output):
        ours, theirs = read_steps(self.output), read_steps(output)
        self.assertEqual([[line[key] for key in ("step", "loss", "grad_norm", "num_tokens")] for line in ours],
                         [[line[key] for key in ("step", "loss", "grad_norm", "num_tokens")] for line in theirs])

    def test_abort(self):
        for profile, ranks in (("multi_gpu", 1), ("zero3", 2)):
            shutil.rmtree(self.output, ignore_errors=True)
            self.expect_one_message(self.train(*WILD, "--profile", profile, ranks=ranks), 76, "step 2: the loss is",
                                    "the first bad gradient is that of model.embed_tokens.weight", "rows of the step")

    def test_skip(self):
        skipping = self.train(*WILD, "--on_nan", "skip", "--max_skipped_steps", "3")
        self.expect(skipping, 76, "warning: step 2: the loss is", "The step is skipped",
                    "step 5: the loss is", "That is 4 steps in a row, more than max_skipped_steps")
        lines = read_metrics(self.output)
        self.assertEqual([line["step"] for line in lines], [1, 2, 3, 4])
        self.assertEqual([line.get("skipped_steps", 0) for line in lines], [0, 1, 1, 1])
        self.assertIsNone(lines[-1]["loss"])

    def test_rewind_after_an_error_that_passes(self):
        """The weights are spoiled once: from the checkpoint before it the curve is that of a good run."""
        whole = os.path.join(self.folder.name, "whole")
        for layout, ranks in ((["--profile", "multi_gpu"], 1), (["--profile", "zero3", "--cp_size", "2"], 2)):
            with self.subTest(ranks=ranks):
                for folder in (whole, self.output):
                    shutil.rmtree(folder, ignore_errors=True)
                self.expect(self.train(*CALM, *layout, ranks=ranks, output=whole), 0)
                back = self.train(*CALM, *layout, "--on_nan", "rewind", ranks=ranks, **SPOILED)
                self.expect(back, 0, "warning: step 6: the loss is", "on_nan = rewind: the run goes back",
                            "resuming from " + os.path.join(self.output, "checkpoint-3"))
                self.expect_same_steps(whole)
                self.assertEqual([line["attempt"] for line in read_steps(self.output)], [1] * 3 + [2] * 6)
                with open(os.path.join(whole, "model.safetensors"), "rb") as a, \
                        open(os.path.join(self.output, "model.safetensors"), "rb") as b:
                    self.assertEqual(a.read(), b.read())

    def test_rewind_to_the_very_beginning(self):
        whole = os.path.join(self.folder.name, "whole")
        flags = [*CALM[:-2], "--save_strategy", "no"]
        self.expect(self.train(*flags, output=whole), 0)
        self.expect(self.train(*flags, "--on_nan", "rewind", **SPOILED), 0, "on_nan = rewind")
        self.expect_same_steps(whole)

    def test_rewind_after_an_error_that_stays(self):
        result = self.train(*WILD, "--on_nan", "rewind", "--max_skipped_steps", "2")
        self.expect(result, 76, "warning: step 2: the loss is", "on_nan = rewind", "The step is skipped",
                    "That is 3 steps in a row, more than max_skipped_steps")
        self.assertEqual(result.stderr.count("on_nan = rewind"), 3)  # for the steps 2, 3 and 4

    def test_the_odd_replica_is_named(self):
        checked = [*CALM, "--check_replicas_every", "2"]
        for layout, names in ((["--profile", "multi_gpu"], (f"rank 2 on {HOST} holds other weights",)),
                              (["--profile", "zero2"], (f"rank 2 on {HOST} holds other whole weights",)),
                              (["--profile", "zero3", "--dp_replicate_size", "2"],
                               (f"rank 0 on {HOST} or rank 2 on {HOST} holds other weights",))):
            with self.subTest(layout[1]):
                shutil.rmtree(self.output, ignore_errors=True)
                self.expect(self.train(*checked, *layout, ranks=4), 0)
                shutil.rmtree(self.output)
                found = self.train(*checked, *layout, ranks=4, RINGSHARD_FAULT="weights:4:flip@2")
                self.expect_one_message(found, 76, "check_replicas_every: after step 4", *names, "in block 0")

    def test_nothing_is_held_twice(self):
        result = self.train(*CALM, "--check_replicas_every", "1", "--profile", "zero3", ranks=2)
        self.expect(result, 0, "check_replicas_every has nothing to compare")


if __name__ == "__main__":
    unittest.main()

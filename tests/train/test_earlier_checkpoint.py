"""A run that version 0.1.0 began goes on with this program (earlier_checkpoint/README.md)."""

import json
import os
import shutil
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_steps, run  # noqa: E402

GIVEN = os.path.join(FOLDER, "earlier_checkpoint")
SETTINGS = ["--model_name_or_path", os.path.join(GIVEN, "model"), "--dataset_name", os.path.join(GIVEN, "rows.jsonl"),
            "--bf16", "false", "--learning_rate", "0.002", "--weight_decay", "0.1", "--max_length", "32", "--max_steps", "6",
            "--logging_steps", "1", "--save_steps", "3", "--full_determinism"]


class EarlierCheckpoint(TrainerTest):
    def go_on(self, *layout, ranks):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "run")
            shutil.copytree(os.path.join(GIVEN, "run"), output)
            result = run("train", *SETTINGS, *layout, "--output_dir", output, "--data_cache_dir",
                         os.path.join(folder, "data"), ranks=ranks)
            self.expect(result, 0, "resuming from " + os.path.join(output, "checkpoint-3"))
            return read_steps(output)

    def expect_curve(self, lines, relative):
        with open(os.path.join(GIVEN, "expected.json")) as file:
            expected = json.load(file)
        self.assertEqual([line["attempt"] for line in lines], [1] * 3 + [2] * 3)
        for ours, theirs in zip(lines, expected, strict=True):
            for key in ("loss", "grad_norm", "entropy"):
                self.assertLessEqual(abs(ours[key] - theirs[key]), relative * theirs[key], (theirs["step"], key))
            for key in ("step", "learning_rate", "num_tokens", "epoch"):
                self.assertEqual(ours[key], theirs[key], (theirs["step"], key))

    def test_at_its_layout(self):
        self.expect_curve(self.go_on("--profile", "zero3", "--per_device_train_batch_size", "2", ranks=2), 1e-6)

    def test_at_another_layout(self):
        self.expect_curve(self.go_on("--profile", "zero1", "--per_device_train_batch_size", "4", "--cp_size", "2", ranks=2), 1e-5)


if __name__ == "__main__":
    unittest.main()

"""Runs of TRL's SFTTrainer, step by step, by this program. The traces and their tolerances: README.md here."""

import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, run  # noqa: E402

DATA = os.path.join(FOLDER, "data")
# Arguments of the traces that ask for something which is so anyway, or which belong to the harness.
IGNORED = {"use_cpu", "logging_nan_inf_filter", "disable_tqdm", "dataloader_pin_memory", "report_to"}


class Traces(TrainerTest):
    def check(self, name):
        with open(os.path.join(DATA, "traces", name + ".json")) as file:
            trace = json.load(file)
        with tempfile.TemporaryDirectory() as output:
            arguments = ["--model_name_or_path", os.path.join(DATA, trace["model"]),
                         "--dataset_name", os.path.join(DATA, "rows", os.path.basename(trace["data"])),
                         "--output_dir", output, "--data_cache_dir", os.path.join(output, "cache")]
            for key, value in trace["args"].items():
                if key not in IGNORED:
                    arguments += ["--" + key, json.dumps(value) if not isinstance(value, str) else value]
            ranks = trace["world_size"] if trace["world_size"] > 1 else None
            self.expect(run("train", *arguments, ranks=ranks), 0)
            lines = read_metrics(output)
        self.assertEqual(len(lines), len(trace["steps"]))
        for index, (ours, theirs) in enumerate(zip(lines, trace["steps"])):
            with self.subTest(trace=name, step=index + 1):
                first = index == 0
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=1e-5 if first else 1e-4)
                self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"],
                                       delta=1e-5 * theirs["grad_norm"] if first else 1e-3)
                if trace["args"].get("gradient_accumulation_steps", 1) == 1:  # TRL takes means of micro-batches
                    self.assertAlmostEqual(ours["entropy"], theirs["entropy"], delta=1e-5 if first else 1e-3)
                    self.assertAlmostEqual(ours["mean_token_accuracy"], theirs["mean_token_accuracy"], delta=1e-6)
                self.assertAlmostEqual(ours["learning_rate"], theirs["learning_rate"], delta=1e-12)
                self.assertEqual(ours["num_tokens"], theirs["num_tokens"])
                self.assertAlmostEqual(ours["epoch"], theirs["epoch"], delta=1e-12)

    def test_pretokenized(self):
        self.check("pretokenized")

    def test_forms_of_the_loss(self):
        self.check("loss_dft")
        self.check("label_smoothing")

    def test_schedules(self):
        self.check("cosine")
        self.check("min_lr")

    def test_models(self):
        self.check("sharded_bf16_file")
        self.check("packing_bfd_pad16")


if __name__ == "__main__":
    unittest.main()

"""Frozen tensors: the numbers of transformers' model with requires_grad False (generator/frozen.py), in every layout."""

import array
import json
import math
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "data")
with open(os.path.join(DATA, "frozen", "trace.json")) as file:
    TRACE = json.load(file)
MODEL = os.path.join(DATA, "models", TRACE["model"])
SETTINGS = ["--model_name_or_path", MODEL, "--bf16", "false", "--dataset_name", os.path.join(DATA, "frozen", "rows.jsonl"),
            "--learning_rate", str(TRACE["learning_rate"]), "--weight_decay", str(TRACE["weight_decay"]),
            "--max_grad_norm", str(TRACE["max_grad_norm"]), "--lr_scheduler_type", "constant", "--num_train_epochs", "1",
            "--train_sampling_strategy", "sequential", "--logging_steps", "1", "--save_strategy", "no"]


def read_weights(folder):
    """fp32, by name."""
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        content = file.read()
    header.pop("__metadata__", None)
    return {name: array.array("f", content[slice(*entry["data_offsets"])]) for name, entry in header.items()}


class Frozen(TrainerTest):
    def check(self, name, *flags, ranks=None):
        case = TRACE["cases"][name]
        with tempfile.TemporaryDirectory() as output, self.subTest(name, flags=flags):
            roles = [flag for setting in ("freeze", "train_only") if case[setting] for flag in ("--" + setting, case[setting])]
            self.expect(run("train", *SETTINGS, *roles, *flags, "--output_dir", output, "--data_cache_dir",
                            os.path.join(output, "data"), ranks=ranks), 0)
            for number, (ours, theirs) in enumerate(zip(read_steps(output), case["steps"], strict=True)):
                for key in ("loss", "grad_norm"):
                    self.assertAlmostEqual(ours[key], theirs[key], delta=1e-5 * theirs[key], msg=(number, key))
            before, after = read_weights(MODEL), read_weights(output)
            self.assertEqual(set(after), set(case["tensors"]))
            for tensor, (norm, product) in case["tensors"].items():
                weights = after[tensor]
                if tensor not in case["trained"]:
                    self.assertEqual(after[tensor].tobytes(), before[tensor].tobytes(), tensor)
                elif not tensor.endswith("k_proj.bias"):  # its gradient nearly cancels: AdamW amplifies rounding
                    self.assertAlmostEqual(math.sqrt(math.fsum(w * w for w in weights)), norm, delta=1e-5 * norm, msg=tensor)
                    ours = math.fsum(w * math.cos(i) for i, w in enumerate(weights))
                    self.assertAlmostEqual(ours, product, delta=1e-5 * norm, msg=tensor)

    def test_one_rank(self):
        for name in TRACE["cases"]:
            self.check(name, "--per_device_train_batch_size", "4")

    def test_two_ranks(self):
        for number, name in enumerate(TRACE["cases"]):
            self.check(name, *(("--per_device_train_batch_size", "2", "--profile", "zero1"),
                               ("--per_device_train_batch_size", "4", "--profile", "zero3", "--cp_size", "2"),
                               ("--per_device_train_batch_size", "2", "--profile", "fsdp2"),
                               ("--per_device_train_batch_size", "4", "--profile", "zero2", "--sp_size", "2"))[number], ranks=2)


if __name__ == "__main__":
    unittest.main()

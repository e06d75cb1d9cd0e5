"""Adapters beside models in four and eight bits: 30 steps of TRL's SFTTrainer with PEFT and bitsandbytes (generator/quantized.py)."""

import json
import math
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
sys.path.insert(0, FOLDER)
from test_adapters import ADAPTERS, flags, read_tensors  # noqa: E402
from trainer import TrainerTest, read_steps, run  # noqa: E402


class Quantized(TrainerTest):
    def check(self, name, *profile, ranks=None):
        with open(os.path.join(ADAPTERS, name + ".json")) as file:
            trace = json.load(file)
        is_bf16 = trace["args"]["bf16"]
        loss, norm, weights = (1e-2, 5e-2, 5e-2) if is_bf16 else (1e-4, 1e-3, 1e-4)
        given = [word for key in ("load_in_4bit", "use_bnb_nested_quant", "load_in_8bit") if key in trace["model_args"] for word in ("--" + key, "true")]
        with self.subTest(trace=name, profile=profile), tempfile.TemporaryDirectory() as output:
            self.expect(run("train", *flags(trace, output), *given, *profile, ranks=ranks), 0)
            for ours, theirs in zip(read_steps(output), trace["steps"], strict=True):
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=loss)
                self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"], delta=norm * theirs["grad_norm"])
                self.assertEqual(ours["num_tokens"], theirs["num_tokens"])
            ours, theirs = (read_tensors(file) for file in (os.path.join(output, "adapter_model.safetensors"),
                                                            os.path.join(ADAPTERS, name + ".safetensors")))
            self.assertEqual(set(ours), set(theirs))
            for tensor, (_, numbers) in theirs.items():
                distance = math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(ours[tensor][1], numbers, strict=True)))
                self.assertLess(distance, weights * math.sqrt(math.fsum(b * b for b in numbers)), tensor)

    def test_one_rank(self):
        for name in ("nf4", "nf4_nested_packed", "nf4_tied", "nf4_bf16", "nf4_dora", "nf4_dora_bf16", "int8"):
            self.check(name)

    def test_two_ranks(self):
        for name, *split in (("nf4", "--profile", "zero3", "--sp_size", "2"),
                             ("nf4_nested_packed", "--profile", "zero3", "--cp_size", "2"),
                             ("nf4_tied", "--profile", "zero1", "--per_device_train_batch_size", "2"),
                             ("nf4_nested_packed", "--profile", "zero2", "--cp_size", "2"),
                             ("int8", "--profile", "zero3", "--cp_size", "2"),
                             ("nf4_dora", "--profile", "zero3", "--cp_size", "2"),
                             ("nf4_dora_bf16", "--profile", "zero1", "--per_device_train_batch_size", "2")):
            self.check(name, *split, ranks=2)


if __name__ == "__main__":
    unittest.main()

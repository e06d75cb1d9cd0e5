"""Runs with adapters beside a model in four or eight bits: layouts, going on, merged models, scores, and the bytes of the weights."""

import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from devices import HOST  # noqa: E402
from trainer import TrainerTest, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
MODEL = os.path.join(DATA, "models", "qwen2-tiny")
ROWS = os.path.join(DATA, "rows", "pretokenized.jsonl")
LORA = ["--use_peft", "--lora_r", "4", "--lora_alpha", "8", "--lora_dropout", "0", "--lora_target_modules", "q_proj,v_proj,down_proj"]
NF4 = ["--load_in_4bit", "--use_bnb_nested_quant"]
COMMON = ["--dataset_name", ROWS, "--bf16", "false", "--learning_rate", "5e-3", "--max_length", "48", "--logging_steps", "1",
          "--full_determinism", "--max_steps", "4", "--save_steps", "2"]
CUT = ["--profile", "zero3", "--cp_size", "2", "--per_device_train_batch_size", "4"]


class Quantized(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.whole = os.path.join(cls.folder.name, "whole")
        whole = cls.train(cls.whole, *CUT, ranks=2)
        assert whole.returncode == 0, whole.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def train(cls, output, *flags, lora=(*LORA, *NF4), model=MODEL, ranks=None):
        return run("train", *COMMON, "--model_name_or_path", model, *lora, *flags, "--output_dir", output, ranks=ranks)

    def path(self, name):
        return os.path.join(self.folder.name, self.id(), name)

    def expect_losses(self, output, delta):
        for ours, whole in zip(read_steps(output), read_steps(self.whole), strict=True):
            self.assertAlmostEqual(ours["loss"], whole["loss"], delta=delta)
            self.assertAlmostEqual(ours["grad_norm"], whole["grad_norm"], delta=100 * delta)

    def test_every_layout_computes_the_same(self):
        self.expect(self.train(self.path("one"), "--per_device_train_batch_size", "4"), 0)
        self.expect_losses(self.path("one"), 1e-5)
        for profile in (("multi_gpu", "--per_device_train_batch_size", "2"), ("zero2", "--per_device_train_batch_size", "2"),
                        ("zero3", "--sp_size", "2", "--per_device_train_batch_size", "4")):
            self.expect(self.train(self.path(profile[0]), "--profile", *profile, ranks=2), 0)
            self.expect_losses(self.path(profile[0]), 1e-5)

    def test_going_on_to_the_bit(self):
        output = self.path("out")
        self.expect(self.train(output, *CUT, "--max_steps", "2", "--lr_scheduler_type", "constant", ranks=2), 0)
        self.expect(self.train(output, *CUT, "--lr_scheduler_type", "constant", ranks=2), 0, "checkpoint-2")
        self.expect(self.train(self.path("whole"), *CUT, "--lr_scheduler_type", "constant", ranks=2), 0)
        for ours, whole in zip(read_steps(output), read_steps(self.path("whole")), strict=True):
            self.assertEqual((ours["loss"], ours["grad_norm"]), (whole["loss"], whole["grad_norm"]))
        # Other bits of the model, and none, are another run.
        self.expect(self.train(output, *CUT, "--lr_scheduler_type", "constant", lora=LORA, ranks=2), 78, "load_in_4bit")

    def test_the_merged_model_is_the_one_that_was_trained(self):
        for ranks in (None, 3):
            self.expect(run("export", os.path.join(self.whole, "checkpoint-4"), "--merge", "true", "--output_dir",
                            self.path(f"merged-{ranks}"), ranks=ranks), 0)
        with open(os.path.join(self.path("merged-None"), "model.safetensors"), "rb") as one, \
                open(os.path.join(self.path("merged-3"), "model.safetensors"), "rb") as other:
            self.assertEqual(one.read(), other.read())
        still = ["--max_steps", "1", "--learning_rate", "0", "--per_device_train_batch_size", "4"]
        self.expect(self.train(self.path("next"), *still, lora=[], model=self.path("merged-3")), 0)
        self.expect(self.train(self.path("same"), *still, lora=["--adapter_name_or_path", self.whole, *NF4]), 0)
        self.expect(self.train(self.path("base"), *still, lora=["--adapter_name_or_path", self.whole]), 0)
        merged, trained, other = (read_steps(self.path(name))[0]["loss"] for name in ("next", "same", "base"))
        self.assertAlmostEqual(merged, trained, delta=1e-5)
        self.assertGreater(abs(other - trained), 1e-4)

    def test_magnitudes(self):
        """DoRA: the norms of the rows are those of the numbers that the codes stand for."""
        lora, still = (*LORA, "--use_dora", *NF4), ["--max_steps", "1", "--learning_rate", "0", "--per_device_train_batch_size", "4"]
        whole = self.path("whole")
        self.expect(self.train(whole, *CUT, lora=lora, ranks=2), 0)
        self.expect(self.train(self.path("one"), "--per_device_train_batch_size", "4", lora=lora), 0)
        for ours, one in zip(read_steps(whole), read_steps(self.path("one")), strict=True):
            self.assertAlmostEqual(ours["loss"], one["loss"], delta=1e-5)
        self.expect(self.train(self.path("plain"), *still, lora=(*LORA, *NF4)), 0)
        self.assertAlmostEqual(read_steps(whole)[0]["loss"], read_steps(self.path("plain"))[0]["loss"], delta=1e-6)
        merged = self.path("merged")
        self.expect(run("export", os.path.join(whole, "checkpoint-4"), "--merge", "true", "--output_dir", merged, ranks=2), 0)
        self.expect(self.train(self.path("next"), *still, lora=[], model=merged), 0)
        self.expect(self.train(self.path("same"), *still, lora=["--adapter_name_or_path", whole, *NF4]), 0)
        self.assertAlmostEqual(read_steps(self.path("next"))[0]["loss"], read_steps(self.path("same"))[0]["loss"], delta=1e-5)

    def test_scores(self):
        means = []
        for name, flags, ranks in (("one", [], None), ("two", ["--profile", "zero3"], 2)):
            scored = run("score", "--dataset_name", ROWS, "--model_name_or_path", MODEL, "--adapter_name_or_path", self.whole, *NF4,
                         "--bf16", "false", "--output_dir", self.path(name), *flags, ranks=ranks)
            self.expect(scored, 0)
            means.append(float(scored.stdout.split("mean log-probability ")[1].split(",")[0]))
        self.assertAlmostEqual(*means, delta=1e-4)

    def test_bytes(self):
        self.expect_bytes(self.whole, NF4, lambda rows, width: (0.5 + 1 / 64 + 4 / 16384) * rows * width)

    def expect_bytes(self, output, form, bytes_of):
        """The plan is what was measured, and as the formula says: numbers of 4 bytes, and codes with their scales."""
        with open(os.path.join(output, "metrics.jsonl")) as file:
            measured = json.loads(file.readline())
        planned = run("plan", "--world", "2", "--gpu", HOST, "--model_name_or_path", MODEL, "--json", "--bf16", "false", *CUT,
                      "--max_length", "48", *LORA, *form)
        self.expect(planned, 0)
        planned = json.loads(planned.stdout)["memory_bytes"]
        for kind in ("weights", "gathered", "optimizer"):
            self.assertEqual(planned[kind], measured[f"memory_{kind}_bytes"], kind)
        with open(os.path.join(MODEL, "model.safetensors"), "rb") as opened:
            header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        with open(os.path.join(output, "adapter_model.safetensors"), "rb") as opened:
            adapter = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        header.pop("__metadata__", None), adapter.pop("__metadata__", None)
        codes = numbers = 0
        for name, tensor in header.items():
            rows, width = (tensor["shape"] + [1])[:2]
            if ".layers." in name and len(tensor["shape"]) == 2:
                codes += bytes_of(rows, width)
            else:
                numbers += rows * width
        numbers += sum(tensor["shape"][0] * tensor["shape"][1] for tensor in adapter.values())
        formula = (4 * numbers + codes) / 2
        self.assertAlmostEqual(measured["memory_weights_bytes"], formula, delta=0.02 * formula)

    def test_eight_bits(self):
        int8, whole = (*LORA, "--load_in_8bit"), self.path("whole")
        self.expect(self.train(whole, *CUT, lora=int8, ranks=2), 0)
        for name, flags, ranks in (("one", [], None), ("sp", ["--profile", "zero3", "--sp_size", "2"], 2), ("two", ["--profile", "zero2"], 2)):
            rows = "2" if name == "two" else "4"
            self.expect(self.train(self.path(name), *flags, "--per_device_train_batch_size", rows, lora=int8, ranks=ranks), 0)
            for ours, theirs in zip(read_steps(self.path(name)), read_steps(whole), strict=True):
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=1e-5)
        self.assertGreater(abs(read_steps(whole)[0]["loss"] - read_steps(self.whole)[0]["loss"]), 1e-4)
        # Stopped after two steps, and resumed at another layout.
        output = self.path("out")
        constant = ["--lr_scheduler_type", "constant"]
        self.expect(self.train(output, *CUT, *constant, "--max_steps", "2", lora=int8, ranks=2), 0)
        self.expect(self.train(output, *constant, "--profile", "zero1", "--per_device_train_batch_size", "2", lora=int8, ranks=2), 0, "checkpoint-2")
        self.expect(self.train(self.path("constant"), *CUT, *constant, lora=int8, ranks=2), 0)
        for ours, theirs in zip(read_steps(output), read_steps(self.path("constant")), strict=True):
            self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=1e-5)
        self.expect(self.train(output, *CUT, *constant, lora=LORA, ranks=2), 78, "load_in_8bit")
        # The merged model is the one that was trained.
        self.expect(run("export", os.path.join(whole, "checkpoint-4"), "--merge", "true", "--output_dir", self.path("merged"), ranks=2), 0)
        still = ["--max_steps", "1", "--learning_rate", "0", "--per_device_train_batch_size", "4"]
        self.expect(self.train(self.path("next"), *still, lora=[], model=self.path("merged")), 0)
        self.expect(self.train(self.path("same"), *still, lora=["--adapter_name_or_path", whole, "--load_in_8bit"]), 0)
        self.assertAlmostEqual(read_steps(self.path("next"))[0]["loss"], read_steps(self.path("same"))[0]["loss"], delta=1e-5)
        self.expect_bytes(whole, ("--load_in_8bit",), lambda rows, width: rows * (width + 4))

    def test_what_is_refused(self):
        for lora, says in ((["--load_in_8bit"], "give use_peft true, or leave load_in_8bit out"),
                           ([*LORA, *NF4, "--load_in_8bit"], "the frozen model is held in one of the two"),
                           ([*LORA, "--load_in_8bit", "--lora_modules_to_save", "o_proj"], "is quantised (load_in_8bit) and cannot be trained whole")):
            self.expect(self.train(self.path("refused"), lora=lora), 78, says)


if __name__ == "__main__":
    unittest.main()

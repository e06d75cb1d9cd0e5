"""Products in FP8: runs of SFTTrainer whose layers compute with PyTorch's casts (generator/fp8_traces.py), other layouts, a resumed run,
and what is refused."""

import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
sys.path.insert(0, FOLDER)
from test_traces import DATA, flags  # noqa: E402
from trainer import TrainerTest, read_steps, run  # noqa: E402

IN_FP8 = ("--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--dataset_name", os.path.join(DATA, "rows", "short.jsonl"),
          "--mixed_precision", "fp8", "--device", "cpu", "--packing", "true", "--max_length", "128", "--logging_steps", "1")


def read(name):
    with open(os.path.join(DATA, "fp8", name + ".json")) as file:
        return json.load(file)


def mean_distance(ours, theirs):
    return sum(abs(a["loss"] - b["loss"]) for a, b in zip(ours, theirs, strict=True)) / len(ours)


class Fp8(TrainerTest):
    def trained(self, *arguments, ranks=None, says=()):
        with tempfile.TemporaryDirectory() as output:
            self.expect(run("train", *arguments, "--output_dir", output, "--data_cache_dir", os.path.join(output, "data"), ranks=ranks), 0, *says)
            return read_steps(output)

    def test_runs_are_those_of_pytorchs_casts(self):
        for name in ("e4m3", "hybrid"):
            trace = read(name)
            with self.subTest(name), tempfile.TemporaryDirectory() as output:
                self.expect(run("train", *flags(trace, output)), 0, f"products in FP8: with {trace['products']} weights")
                steps = read_steps(output)
                # A last bit of bf16, which the library of products decides, moves a factor to the next FP8 number.
                for ours, theirs in zip(steps, trace["steps"], strict=True):
                    self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=2e-2)
                    self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"], delta=1e-1 * theirs["grad_norm"])
                    self.assertEqual(ours["num_tokens"], theirs["num_tokens"])
                # It is near to the run in bf16, and nearer to the one in FP8.
                self.assertLess(mean_distance(steps, trace["steps_in_bf16"]), 5e-2)
                self.assertLess(mean_distance(steps[:8], trace["steps"][:8]), mean_distance(steps[:8], trace["steps_in_bf16"][:8]))

    def test_layouts(self):
        common = (*IN_FP8, "--max_steps", "10", "--learning_rate", "1e-3")
        alone = self.trained(*common, "--per_device_train_batch_size", "4")
        for layout in (("--profile", "zero3", "--per_device_train_batch_size", "2"),
                       ("--profile", "zero2", "--sp_size", "2", "--per_device_train_batch_size", "4")):
            with self.subTest(layout=layout):
                steps = self.trained(*common, *layout, ranks=2)
                self.assertLess(abs(sum(a["loss"] - b["loss"] for a, b in zip(steps, alone, strict=True))) / len(steps), 1e-3)
                for ours, theirs in zip(steps, alone, strict=True):
                    self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=1e-2)
                    self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"], delta=5e-2 * theirs["grad_norm"])

    def test_a_ring_scatters_around_one_rank(self):
        """Of the same weights, since training amplifies differences: contract.md, section 4."""
        common = (*IN_FP8, "--max_steps", "30", "--learning_rate", "1e-8", "--per_device_train_batch_size", "4")
        alone = self.trained(*common)
        ring = self.trained(*common, "--profile", "zero3", "--cp_size", "2", ranks=2)
        differences = [a["loss"] - b["loss"] for a, b in zip(ring, alone, strict=True)]
        self.assertLess(abs(sum(differences)) / len(differences), 2e-3)
        self.assertLess(max(map(abs, differences)), 1e-2)
        for ours, theirs in zip(ring, alone, strict=True):
            self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"], delta=1e-2 * theirs["grad_norm"])

    def test_a_resumed_run_has_the_same_bits(self):
        def train(output, *more):
            return run("train", *IN_FP8, "--full_determinism", "true", "--max_steps", "6", "--save_steps", "3",
                       "--per_device_train_batch_size", "2", "--output_dir", output, *more)

        def content(output):
            with open(os.path.join(output, "model.safetensors"), "rb") as file:
                return file.read()

        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as resumed:
            self.expect(train(whole), 0)
            self.expect(train(resumed, "--resume_from_checkpoint", os.path.join(whole, "checkpoint-3")), 0, "resuming from")
            self.assertEqual(content(whole), content(resumed))
            self.assertEqual([step["loss"] for step in read_steps(resumed)], [step["loss"] for step in read_steps(whole)[3:]])

    def test_adapters_and_four_bits(self):
        for more in ((), ("--load_in_4bit", "true"), ("--use_dora", "true")):
            with self.subTest(more=more):
                arguments = (*IN_FP8, "--max_steps", "6", "--use_peft", "true", "--lora_r", "4", "--lora_target_modules", "all-linear",
                             "--per_device_train_batch_size", "2", *more)
                in_fp8 = self.trained(*arguments, says=("products in FP8",))
                in_bf16 = self.trained(*arguments, "--mixed_precision", "bf16")
                self.assertLess(mean_distance(in_fp8, in_bf16), 2e-2)
                self.assertNotEqual(in_fp8[0]["loss"], in_bf16[0]["loss"])

    def test_what_is_refused(self):
        for arguments, words in (
                (("--mixed_precision", "bf16", "--fp8_format", "HYBRID"), ("fp8_format", "mixed_precision fp8 only")),
                (("--fp8_format", "E5M2"), ("fp8_format", "too few for weights")),
                (("--fp8_backend", "TE"), ("fp8_backend", "give AO")),
                (("--fp8_config", json.dumps({"backend": "MSAMP", "opt_level": "O2"})), ("backend = MSAMP", "opt_level = O2")),
                (("--fp8_amax_compute_algo", "max"), ("of its numbers alone",)),
                (("--fp8_override_linear_precision", "true,false,false"), ("gradients of weights are products in bf16",)),
                (("--fp8", "--bf16"), ("contradict each other",))):
            with self.subTest(arguments=arguments):
                given = [word for word in IN_FP8 if word not in ("--mixed_precision", "fp8")] if arguments[0] in ("--mixed_precision", "--fp8") else IN_FP8
                self.expect(run("train", *given, *arguments), 78, *words)

    def test_accelerates_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "fp8.yaml")
            with open(path, "w") as file:
                file.write("compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nmixed_precision: fp8\nnum_processes: 1\nfp8_config:\n"
                           "  backend: AO\n  enable_fsdp_float8_all_gather: true\n  pad_inner_dim: true\n  fp8_format: HYBRID\n")
            result = run("config", "--accelerate_config", path, "--json")
            self.expect(result, 0)
            settings = json.loads(result.stdout)
            self.assertEqual(settings["mixed_precision"]["value"], "fp8")
            self.assertEqual(settings["fp8_format"]["value"], "hybrid")

    def test_plan(self):
        model = os.path.join(DATA, "models", "qwen2-tiny")
        common = ("plan", "--model_name_or_path", model, "--world", "1", "--profile", "single_gpu", "--max_length", "1024", "--json")
        seconds = {}
        for precision in ("bf16", "fp8"):
            result = run(*common, "--gpu", "h100-80", "--mixed_precision", precision)
            self.expect(result, 0)
            seconds[precision] = json.loads(result.stdout)["step_seconds"]
        self.assertLess(seconds["fp8"]["products"], seconds["bf16"]["products"])
        self.assertGreater(seconds["fp8"]["products"], 0.5 * seconds["bf16"]["products"])
        self.assertGreater(seconds["fp8"]["rows"], seconds["bf16"]["rows"])
        self.expect(run(*common, "--gpu", "a100-80", "--mixed_precision", "fp8"), 78, "a100-80 has no products in FP8", "bf16")


if __name__ == "__main__":
    unittest.main()

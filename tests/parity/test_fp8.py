"""Products in FP8: runs of SFTTrainer whose layers compute with PyTorch's casts (generator/fp8_traces.py), other layouts, a resumed run,
and what is refused."""

import json
import math
import os
import pathlib
import re
import statistics
import struct
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
sys.path.insert(0, FOLDER)
from test_traces import DATA, flags  # noqa: E402
from trainer import TrainerTest, read_steps, run, some_of  # noqa: E402

IN_FP8 = ("--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--dataset_name", os.path.join(DATA, "rows", "short.jsonl"),
          "--mixed_precision", "fp8", "--device", "cpu", "--packing", "true", "--max_length", "128", "--logging_steps", "1")
# These kernels give a row of a product the same bits whatever the number of rows. Those of LibTorch, which a rule takes on processors with AMX,
# do not, and a last bit of bf16 moves a factor to the next FP8 number.
SAME_ROWS = ("--cpu_gemm", "native")
DELAYED = ("--fp8_recipe", "delayed", "--fp8_amax_history_len", "4", "--fp8_amax_compute_algo", "max")


def read(name):
    with open(os.path.join(DATA, "fp8", name + ".json")) as file:
        return json.load(file)


def mean_distance(ours, theirs):
    return sum(abs(a["loss"] - b["loss"]) for a, b in zip(ours, theirs, strict=True)) / len(ours)


HISTORY = re.compile(rb'{"maxima":.*?"tensors":[0-9]+}')


def history_of(checkpoint):
    """The text as it lies in the file; None if there is none."""
    with open(os.path.join(checkpoint, "state.h5"), "rb") as file:
        return HISTORY.search(file.read())


def maxima_of(checkpoint):
    """Of all factors, by step."""
    steps = json.loads(history_of(checkpoint)[0])["maxima"]
    return [[struct.unpack(">f", bytes.fromhex(step[at:at + 4] + "0000"))[0] for at in range(0, len(step), 4)] for step in steps]


class Fp8(TrainerTest):
    def trained(self, *arguments, ranks=None, says=()):
        with tempfile.TemporaryDirectory() as output:
            self.expect(run("train", *arguments, "--output_dir", output, "--data_cache_dir", os.path.join(output, "data"), ranks=ranks), 0, *says)
            return read_steps(output)

    def check_maxima(self, maxima, expected):
        self.assertEqual(len(maxima), 3)
        for step, (ours, theirs) in enumerate(zip(maxima, expected, strict=True)):
            for factor, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
                if step == 0:  # before training amplifies last bits; those of inputs, then those of gradients
                    self.assertAlmostEqual(mine, other, delta=(0.08 if factor % 2 == 0 else 0.25) * other)
                else:
                    self.assertLess(abs(math.log2(mine / other)), 2)

    def middle_of_runs(self, trace):
        """The medians of five runs whose rates differ by a thousandth: training amplifies last bits, most with one scale for a tensor, or with
        a margin, which makes steps between numbers large."""
        runs = []
        for thousandths in range(-2, 3):
            args = trace["args"] | {"learning_rate": trace["args"]["learning_rate"] * (1 + thousandths / 1000)}
            with tempfile.TemporaryDirectory() as output:
                self.expect(run("train", *flags(trace | {"args": args}, output)), 0)
                runs.append(read_steps(output))
        return [steps[0] | {name: statistics.median(step[name] for step in steps) for name in ("loss", "grad_norm")}
                for steps in zip(*runs, strict=True)]

    def test_a_margin_makes_numbers_coarser(self):
        trace = read("delayed_recent")  # which the run with its margin follows within 1e-1
        trace["args"]["fp8_margin"] = 0
        with tempfile.TemporaryDirectory() as output:
            self.expect(run("train", *flags(trace, output)), 0)
            self.assertGreater(mean_distance(read_steps(output), trace["steps"]), 2e-1)

    def test_runs_are_those_of_pytorchs_casts(self):
        for name in ("e4m3", "hybrid", "tensorwise", "delayed", "delayed_recent"):
            trace = read(name)
            if "maxima" in trace:
                trace["args"].update(save_strategy="steps", save_steps=3)
            with self.subTest(name), tempfile.TemporaryDirectory() as output:
                self.expect(run("train", *flags(trace, output)), 0, f"products in FP8: with {trace['products']} weights")
                if "maxima" in trace:
                    self.check_maxima(maxima_of(os.path.join(output, "checkpoint-3")), trace["maxima"])
                steps = read_steps(output)
                if name in ("tensorwise", "delayed_recent"):
                    steps = self.middle_of_runs(trace)
                # A last bit of bf16, which the library of products decides, moves a factor to the next FP8 number, and a margin makes
                # the steps between these large.
                times = 5 if "fp8_margin" in trace["args"] else 1
                for ours, theirs in zip(steps, trace["steps"], strict=True):
                    self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=times * 2e-2)
                    self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"], delta=times * 1e-1 * theirs["grad_norm"])
                    self.assertEqual(ours["num_tokens"], theirs["num_tokens"])
                # It is near to the run in bf16, and nearer to the one in FP8.
                self.assertLess(mean_distance(steps, trace["steps_in_bf16"]), times * 1e-1 if times > 1 else 5e-2)
                self.assertLess(mean_distance(steps[:8], trace["steps"][:8]), mean_distance(steps[:8], trace["steps_in_bf16"][:8]))

    def test_layouts(self):
        """The first step is that of one rank but for the order of sums. Ranks add their gradients in another order, and a last bit that moves a weight to the next
        FP8 number parts two runs for good: most orders of rows meet none in ten steps, and the middle one of three is compared."""
        layouts = (("--profile", "zero3", "--per_device_train_batch_size", "2"),
                   ("--profile", "zero2", "--sp_size", "2", "--per_device_train_batch_size", "4"))
        found = {layout: [] for layout in layouts}
        for order in ("42", "43", "44"):
            common = (*IN_FP8, *SAME_ROWS, "--max_steps", "10", "--learning_rate", "1e-3", "--data_seed", order)
            alone = self.trained(*common, "--per_device_train_batch_size", "4")
            for layout in layouts:
                steps = self.trained(*common, *layout, ranks=2)
                with self.subTest(layout=layout, order=order):
                    self.assertAlmostEqual(steps[0]["loss"], alone[0]["loss"], delta=1e-6 * alone[0]["loss"])
                    self.assertAlmostEqual(steps[0]["grad_norm"], alone[0]["grad_norm"], delta=1e-6 * alone[0]["grad_norm"])
                pairs = list(zip(steps, alone, strict=True))
                losses = [ours["loss"] - theirs["loss"] for ours, theirs in pairs]
                norms = [abs(ours["grad_norm"] / theirs["grad_norm"] - 1) for ours, theirs in pairs]
                found[layout].append((abs(sum(losses)) / len(losses), max(map(abs, losses)), max(norms)))
        for layout, orders in found.items():
            with self.subTest(layout=layout):
                mean, most, norm = map(statistics.median, zip(*orders))
                self.assertLess(mean, 1e-3)
                self.assertLess(most, 1e-2)
                self.assertLess(norm, 5e-2)

    def test_a_ring_scatters_around_one_rank(self):
        """Of the same weights, since training amplifies differences: contract.md, section 4."""
        common = (*IN_FP8, *SAME_ROWS, "--max_steps", "30", "--learning_rate", "1e-8", "--per_device_train_batch_size", "4")
        alone = self.trained(*common)
        ring = self.trained(*common, "--profile", "zero3", "--cp_size", "2", ranks=2)
        differences = [a["loss"] - b["loss"] for a, b in zip(ring, alone, strict=True)]
        self.assertLess(abs(sum(differences)) / len(differences), 2e-3)
        self.assertLess(max(map(abs, differences)), 1e-2)
        for ours, theirs in zip(ring, alone, strict=True):
            self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"], delta=1e-2 * theirs["grad_norm"])

    def test_a_resumed_run_has_the_same_bits(self):
        def content(output):
            with open(os.path.join(output, "model.safetensors"), "rb") as file:
                return file.read()

        for recipe in ((), DELAYED):
            with self.subTest(recipe=recipe), tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as resumed:
                def train(output, *more):
                    return run("train", *IN_FP8, *recipe, "--full_determinism", "true", "--max_steps", "6", "--save_steps", "3",
                               "--per_device_train_batch_size", "2", "--output_dir", output, *more)

                self.expect(train(whole), 0)
                self.expect(train(resumed, "--resume_from_checkpoint", os.path.join(whole, "checkpoint-3")), 0, "resuming from")
                self.assertEqual(content(whole), content(resumed))
                self.assertEqual([step["loss"] for step in read_steps(resumed)[3:]], [step["loss"] for step in read_steps(whole)[3:]])
                if recipe:
                    checkpoints = [os.path.join(output, "checkpoint-6") for output in (whole, resumed)]
                    self.assertEqual(*map(maxima_of, checkpoints))

    def test_maxima_resume_on_other_ranks(self):
        def train(output, *more, ranks=None, says=()):  # at a rate with which training amplifies no differences
            result = run("train", *IN_FP8, *SAME_ROWS, "--max_steps", "6", "--save_steps", "3", "--learning_rate", "1e-6", "--output_dir", output, *more, ranks=ranks)
            self.expect(result, 0, *says)
            return result.stderr

        with tempfile.TemporaryDirectory() as whole:
            train(whole, *DELAYED, "--profile", "zero3", "--per_device_train_batch_size", "2", ranks=2)
            start = ("--resume_from_checkpoint", os.path.join(whole, "checkpoint-3"), "--per_device_train_batch_size", "4")
            stored = maxima_of(os.path.join(whole, "checkpoint-3"))
            for more, says, kept in ((DELAYED, (), stored[-3:]),
                                     (("--fp8_recipe", "delayed", "--fp8_amax_history_len", "5"), (), stored),
                                     (("--fp8_recipe", "tensorwise"), ("has maxima of fp8_recipe delayed",), None)):
                with self.subTest(more=more), tempfile.TemporaryDirectory() as output:
                    said = train(output, *start, *more, says=says)
                    for ours, theirs in zip(read_steps(output)[3:], read_steps(whole)[3:], strict=True):
                        self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=5e-3 if kept else 5e-2)
                    if kept is None:
                        self.assertIsNone(history_of(os.path.join(output, "checkpoint-6")))
                        continue
                    self.assertNotIn("no maxima", said)
                    history = maxima_of(os.path.join(output, "checkpoint-6"))
                    self.assertEqual(len(history), 4 if more == DELAYED else 5)
                    self.assertEqual(history[:-3], kept[len(kept) - len(history) + 3:])
            with tempfile.TemporaryDirectory() as rowwise, tempfile.TemporaryDirectory() as output:
                train(rowwise, "--per_device_train_batch_size", "4")
                train(output, *DELAYED, "--per_device_train_batch_size", "4", "--resume_from_checkpoint", os.path.join(rowwise, "checkpoint-3"),
                      says=("has no maxima for fp8_recipe delayed",))
                self.assertEqual(read_steps(output)[3]["loss"], read_steps(rowwise)[3]["loss"])  # the first step is one of rows

    def test_damaged_maxima_are_refused(self):
        with tempfile.TemporaryDirectory() as output:
            arguments = (*IN_FP8, *DELAYED, "--max_steps", "2", "--save_steps", "1", "--per_device_train_batch_size", "2", "--output_dir", output)
            self.expect(run("train", *arguments), 0)
            checkpoint = os.path.join(output, "checkpoint-1")
            with open(os.path.join(checkpoint, "state.h5"), "r+b") as file:
                file.seek(history_of(checkpoint).start() + len('{"maxima":["'))
                file.write(b"7f80")  # infinity
            self.expect(run("train", *arguments, "--resume_from_checkpoint", checkpoint, "--verify_checkpoint", "sizes"), 65,
                        "fp8_amax_history", "other than finite numbers")

    def test_scores_have_scales_of_rows(self):
        files = {}
        for recipe in ((), DELAYED):
            with tempfile.TemporaryDirectory() as output:
                self.expect(run("score", *[word for word in IN_FP8 if word not in ("--logging_steps", "1")], *recipe, "--output_dir", output), 0,
                            "products in FP8", *(("each row has a scale",) if recipe else ()))
                names = sorted(name for name in os.listdir(output) if name.endswith(".parquet"))
                files[recipe] = [pathlib.Path(output, name).read_bytes() for name in names]
        self.assertTrue(files[()])
        self.assertEqual(files[()], files[DELAYED])

    def test_tensorwise_is_near_in_layouts(self):
        common = (*IN_FP8, "--fp8_recipe", "tensorwise", "--max_steps", "10", "--learning_rate", "1e-3")
        alone = self.trained(*common, "--per_device_train_batch_size", "4", says=("note: with fp8_recipe tensorwise",))
        steps = self.trained(*common, "--profile", "zero3", "--per_device_train_batch_size", "2", ranks=2)
        for ours, theirs in zip(steps, alone, strict=True):
            self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=5e-2)

    def test_adapters_and_four_bits(self):
        bf16 = {}
        for more, recipe in some_of((((), ()), (("--use_dora", "true"), ()), (("--load_in_4bit", "true"), ()), ((), DELAYED),
                                     (("--use_dora", "true"), DELAYED))):
            with self.subTest(more=more, recipe=recipe):
                arguments = (*IN_FP8, "--max_steps", "6", "--use_peft", "true", "--lora_r", "4", "--lora_target_modules", "all-linear",
                             "--per_device_train_batch_size", "2", *more)
                in_fp8 = self.trained(*arguments, *recipe, says=("products in FP8",))
                if more not in bf16:
                    bf16[more] = self.trained(*arguments, "--mixed_precision", "bf16")
                self.assertLess(mean_distance(in_fp8, bf16[more]), 2e-2)
                self.assertNotEqual(in_fp8[0]["loss"], bf16[more][0]["loss"])

    def test_what_is_refused(self):
        for arguments, words in (
                (("--mixed_precision", "bf16", "--fp8_format", "HYBRID"), ("fp8_format", "mixed_precision fp8 only")),
                (("--fp8_format", "E5M2"), ("fp8_format", "too few for weights")),
                (("--fp8_backend", "MSAMP"), ("fp8_backend", "give ao or te")),
                (("--fp8_backend", "TE", "--fp8_recipe", "rowwise"), ("te means fp8_recipe delayed",)),
                (("--fp8_recipe", "tensorwise", "--fp8_amax_history_len", "16"), ("fp8_amax_history_len = 16", "fp8_recipe delayed")),
                (("--mixed_precision", "bf16", "--fp8_recipe", "delayed"), ("fp8_recipe", "mixed_precision fp8 only")),
                (("--fp8_recipe", "delayed", "--adapters", os.path.join(DATA, "no_such_file.json")), ("would share the scales",)),
                (("--fp8_interval", "2"), ("found anew for every step",)),
                (("--fp8_config", json.dumps({"backend": "MSAMP", "opt_level": "O2"})), ("backend = MSAMP", "opt_level = O2")),
                (("--fp8_amax_compute_algo", "max"), ("from maxima of earlier steps",)),
                (("--fp8_override_linear_precision", "true,false,false"), ("gradients of weights in bf16",)),
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
            self.assertEqual(settings["fp8_recipe"]["value"], "rowwise")
            # As accelerate config writes it, but for the evaluation, which computes as training does here.
            with open(path, "w") as file:
                file.write("compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nmixed_precision: fp8\nnum_processes: 1\nfp8_config:\n"
                           "  backend: TE\n  margin: 1\n  interval: 1\n  fp8_format: HYBRID\n  amax_history_length: 32\n"
                           "  amax_compute_algorithm: max\n  override_linear_precision:\n  - false\n  - false\n  - false\n")
            result = run("config", "--accelerate_config", path, "--json")
            self.expect(result, 0)
            settings = json.loads(result.stdout)
            for name, value in (("recipe", "delayed"), ("format", "hybrid"), ("amax_history_len", 32), ("amax_compute_algo", "max"), ("margin", 1)):
                self.assertEqual(settings["fp8_" + name]["value"], value)

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
        rows = [seconds["fp8"]["rows"]]
        for recipe in ("delayed", "tensorwise"):
            result = run(*common, "--gpu", "h100-80", "--mixed_precision", "fp8", "--fp8_recipe", recipe)
            self.expect(result, 0)
            rows.append(json.loads(result.stdout)["step_seconds"]["rows"])
        self.assertEqual(rows, sorted(set(rows)))
        self.expect(run(*common, "--gpu", "a100-80", "--mixed_precision", "fp8"), 78, "a100-80 has no products in FP8", "bf16")


if __name__ == "__main__":
    unittest.main()

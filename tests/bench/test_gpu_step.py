"""bench_gpu_step on the processor: what it says of steps with several micro-batches, and its words."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gpu"))
import shapes  # noqa: E402


class GpuStep(unittest.TestCase):
    def setUp(self):
        self.config = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "config.json"
        self.config.write_text(json.dumps(shapes.qwen2(64, 128, 2, 4, 2, 512, True)))

    def run_step(self, policy, *words, rows=2, length=64, before=None):
        environment = dict(os.environ, RINGSHARD_TEST_DEVICE="cpu", OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return subprocess.run([os.environ["BENCH_GPU_STEP"], self.config, str(rows), str(length), policy, "fp32", "0", *words],
                              capture_output=True, text=True, env=environment, preexec_fn=before)

    def step(self, policy, *words):
        result = self.run_step(policy, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_a_step_has_all_its_micro_batches(self):
        one, four = self.step("all"), self.step("all", "accumulate=4")
        self.assertEqual(four["tokens_per_step"], 4 * one["tokens_per_step"])
        operations = [numbers["tflops"] * numbers["seconds"] for numbers in (one, four)]
        self.assertAlmostEqual(operations[1] / operations[0], 4, delta=0.001)

    def test_every_policy_has_the_same_loss(self):
        all_kept = self.step("all")
        for policy in ("everything", "all_but_gate_up", "attention", "input"):
            numbers = self.step(policy)
            self.assertAlmostEqual(numbers["first_loss"], all_kept["first_loss"], delta=1e-3)
            self.assertEqual(numbers["other_kernels"], 0)

    def test_packed_rows_are_as_many_as_others(self):
        for length in (64, 1024, 4096):
            result = self.run_step("all", "packed", length=length)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["tokens_per_step"], 2 * length)

    def test_a_profile_has_all_work_and_no_span_around_it(self):
        numbers = self.step("all", "profile")
        names = [kernel["name"] for kernel in numbers["kernels"]]
        self.assertGreater(len(names), 3)
        self.assertEqual([name for name in names if not name.startswith("aten::")], [])
        self.assertAlmostEqual(sum(kernel["microseconds"] for kernel in numbers["kernels"]) / numbers["device_microseconds"], 1,
                               delta=1e-3)

    def test_offloaded_activations_and_fp8_have_nearly_the_same_loss(self):
        kept = self.step("attention")
        offloaded = self.step("attention", "offload")
        self.assertEqual(offloaded["first_loss"], kept["first_loss"])
        self.assertGreater(offloaded["host_bytes"], 0)
        in_fp8 = self.step("attention", "fp8")
        self.assertNotEqual(in_fp8["first_loss"], kept["first_loss"])
        self.assertAlmostEqual(in_fp8["first_loss"], kept["first_loss"], delta=2e-2)

    def test_host_memory_is_pinned_for_a_model_that_fits(self):
        """Neither the model nor what is kept of its rows has room: the model says so first."""
        self.config.write_text(json.dumps(shapes.MODELS["0.5B"]))
        limit = 4 << 30  # of addresses, of which LibTorch's libraries take a part
        result = self.run_step("attention", "offload", rows=64, length=1024,
                               before=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertNotEqual(result.returncode, 0)
        self.assertNotIn("state offloaded from the GPU", result.stderr)
        self.assertIn("out of memory", result.stderr)

    def test_kernels_are_chosen_by_time_on_a_gpu_alone(self):
        result = self.run_step("all", "timed")
        self.assertEqual(result.returncode, 64)
        self.assertIn("timed: kernels are chosen by time on a GPU alone", result.stderr)


if __name__ == "__main__":
    unittest.main()

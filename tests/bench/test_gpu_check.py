"""scripts/gpu-check against programs that only play theirs: what it keeps when they fail, hang, or it is ended itself."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NVIDIA_SMI = """#!/bin/sh
echo "NVIDIA H100 80GB HBM3, 81559 MiB, 580.65.06, 1980 MHz, 700.00 W, 9.0"
"""
MPIRUN = """#!/bin/sh
# --oversubscribe --bind-to none -n N PROGRAM...
shift 5
exec "$@"
"""
TRAINER = """#!/bin/sh
if [ "$1" = plan ]; then
    echo "note: of the settings {}"
    cat <<end
{
  "step_seconds": {"products": 0.000004, "total": 0.000004},
  "step_parts": [
    {"name": "qkv, forward", "sum": "products", "seconds": 0.000004, "hidden_seconds": 0, "kernels": ["gemm"]},
    {"name": "loss", "sum": "loss", "seconds": 0.0, "hidden_seconds": 0, "kernels": ["LossOfToken"]}
  ],
  "uncounted_kernels": [],
  "asked": "$*"
}
end
    exit
fi
echo "attention: cuDNN, from step 1"
echo "attention: products of matrices, from step 1"
echo "cuda_graphs: 5 of 6 batches"
echo done
"""
STEP = """#!/usr/bin/env python3
import json, sys
words = sys.argv[7:]
if "graphs" in words:
    sys.exit("recording failed")
if "packed" in words:
    sys.exit("trainer: GPU 0 has no room for another 2 GiB")
loss = 11.5 if "deterministic" in words else 11.0
print("a warning of a library")
print(json.dumps({"tokens_per_second": 1000, "tflops": 500, "seconds": 2.0, "loss": loss, "first_loss": loss,
                  "first_grad_norm": 1.0, "attention": "cuDNN", "host_bytes": 10,
                  **({"kernels": [{"name": "gemm", "count": 1, "microseconds": 5}, {"name": "odd", "count": 2, "microseconds": 3}]} if "profile" in words else {})}))
"""
KERNELS = """#!/usr/bin/env python3
import json, sys, time
for i in range(3):
    print(json.dumps({"table": "products", "shape": str(i), "what": "forward", "tflops": 600}), flush=True)
time.sleep(60)
"""
ODD_STEP = """#!/usr/bin/env python3
import json, sys
model, length, policy = sys.argv[1], sys.argv[3], sys.argv[4]
numbers = {"tokens_per_second": 1000, "tflops": 500, "seconds": 2.0, "loss": 11.0, "first_loss": 11.0, "first_grad_norm": 1.0,
           "attention": "cuDNN", "host_bytes": 10}
if "0.5B" in model and "layers=4" not in sys.argv:
    numbers["loss"] = None
if policy == "input":
    numbers["loss"] = float("nan")
if "8B" in model and length == "8192":
    del numbers["tflops"]
print(json.dumps(numbers).replace("11.0", "nan" if "7B" in model else "11.0"))
"""
ODD_KERNELS = """#!/usr/bin/env python3
for number in ("600", "null", "-nan", "500"):
    print('{"table": "products", "tflops": ' + number + "}")
"""
PASSES = "#!/bin/sh\necho fine\n"


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        programs = {"mpirun": MPIRUN, "trainer": TRAINER, "bench_gpu_step": STEP, "bench_gpu_kernels": KERNELS,
                    "kernels_on_gpu_test": "#!/bin/sh\necho 'off by one'\nexit 1\n", "attention_on_gpu_test": PASSES,
                    "cases_parity": PASSES, "forward_parity": PASSES}
        for name, text in programs.items():
            self.put(self.work / "build" / "bin" / name, text)
        self.put(self.work / "path" / "nvidia-smi", NVIDIA_SMI)

    def put(self, file, text):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def start(self, *arguments, has_smi=True):
        environment = dict(os.environ, OUT=str(self.work / "out"))
        if has_smi:
            environment["PATH"] = f"{self.work / 'path'}:{os.environ['PATH']}"
        return subprocess.Popen([sys.executable, ROOT / "scripts" / "gpu-check", self.work / "build", *arguments],
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def results(self):
        return json.loads((self.work / "out" / "gpu.json").read_text())

    def outcomes(self):
        return {result["what"]: result["passed"] for result in self.results()["ran"]}

    def test_failures_are_told_and_stop_nothing(self):
        check = self.start("--only", "smoke,bench,losses,tests,layouts,rows,longest,memcheck")
        output, errors = check.communicate(timeout=120)
        self.assertEqual(check.returncode, 1, errors)
        outcomes = self.outcomes()
        self.assertFalse(outcomes["kernels_on_gpu_test"])
        self.assertTrue(outcomes["attention_on_gpu_test"])
        self.assertTrue(outcomes["trainer, bf16, rows of 128, cuDNN"])
        self.assertFalse(outcomes["bench 0.5B, 4 x 1024, keeps all, moments fp32, graphs"])
        results = self.results()
        # Kernels that take the most of a step, the share of the peak, and the rows after the one that failed.
        first = results["bench"][0]
        self.assertEqual(first["kernels"][0]["name"], "gemm")
        self.assertEqual(first["mfu_percent"], 50.5)
        self.assertEqual(first["llmq_mfu_percent"], 46.7)
        self.check_parts(results["bench"], output)
        self.assertNotIn("llmq_mfu_percent", results["bench"][-1])
        measured = {(row["model"], row["policy"], *row["words"]) for row in results["bench"]}
        self.assertIn(("0.5B", "everything", "timed"), measured)
        self.assertIn(("1.5B", "everything", "accumulate=2", "timed"), measured)
        self.assertTrue(outcomes["loss with everything is that of the first"])
        self.assertTrue(outcomes["loss with all timed is that of the first"])
        self.assertEqual(results["bench"][-1]["model"], "1.5B")
        # The other attention kernel comes to another loss.
        self.assertFalse(outcomes["loss with all deterministic is that of the first"])
        self.assertTrue(outcomes["loss with input is that of the first"])
        self.assertFalse(outcomes["the loss of 262144 tokens with both kernels"])
        not_run = {result["what"]: result["why"] for result in results["not_run"]}
        packed = "bench 8B, 1 x 131072, keeps attention, moments bf16, offload, packed"
        self.assertIn("does not fit the GPU", not_run[packed])
        self.assertEqual(not_run["recorded blocks compute what others do"], "not in the folder")
        self.assertEqual(results["ended"], "after all parts")
        self.assertIn("FAILED kernels_on_gpu_test", output)

    def check_parts(self, rows, output):
        """Each row with a breakdown has the plan's parts beside it, on the screen too."""
        for row in rows:
            self.assertEqual("parts" in row, "kernels" in row)
        parts = {part["part"]: part for part in rows[0]["parts"]["rows"]}
        self.assertEqual((parts["qkv, forward"]["planned_ms"], parts["qkv, forward"]["measured_ms"], parts["qkv, forward"]["ratio"]),
                         (0.004, 0.005, 1.25))
        self.assertEqual(parts["loss"]["measured_ms"], 0)
        self.assertEqual(parts["kernels without a part"]["kernels"], ["odd"])
        self.assertIn("kernels without a part", output)
        self.assertIn("\n          odd\n", output)
        self.assertIn("--max_length 1024 --per_device_train_batch_size 64 --gradient_accumulation_steps 1 --activation_policy all "
                      "--optimizer_state_dtype fp32 --gpu h100-80", rows[0]["parts"]["flags"])
        accumulated = next(row for row in rows if "accumulate=8" in row["words"])
        self.assertIn("--gradient_accumulation_steps 8", accumulated["parts"]["flags"])

    def test_a_plan_that_fails_leaves_the_row(self):
        self.put(self.work / "build" / "bin" / "trainer", "#!/bin/sh\necho no plan\n")
        check = self.start("--only", "bench")
        check.communicate(timeout=60)
        self.assertEqual(check.returncode, 1)
        results = self.results()
        self.assertEqual(results["bench"][0]["kernels"][0]["name"], "gemm")
        self.assertNotIn("parts", results["bench"][0])
        self.assertFalse(self.outcomes()["trainer plan, 0.5B, 64 x 1024, keeps all, moments fp32: its JSON"])

    def test_a_profile_without_kernels_fails(self):
        self.put(self.work / "build" / "bin" / "bench_gpu_step",
                 STEP.replace('[{"name": "gemm", "count": 1, "microseconds": 5}, {"name": "odd", "count": 2, "microseconds": 3}]', "[]"))
        check = self.start("--only", "bench")
        check.communicate(timeout=60)
        self.assertEqual(check.returncode, 1)
        self.assertFalse(self.outcomes()["kernels in the profile of 0.5B, 64 x 1024, keeps all, moments fp32"])
        self.assertEqual(self.results()["bench"][0]["tokens_per_second"], 1000)

    def test_a_gpu_without_a_plan_leaves_the_row(self):
        self.put(self.work / "path" / "nvidia-smi", NVIDIA_SMI.replace("H100 80GB HBM3", "L4"))
        check = self.start("--only", "bench")
        check.communicate(timeout=60)
        results = self.results()
        self.assertNotIn("parts", results["bench"][0])
        self.assertIn("trainer plan knows no such GPU", {result["why"] for result in results["not_run"]})

    def test_rows_without_numbers_fail_by_themselves(self):
        self.put(self.work / "build" / "bin" / "bench_gpu_step", "#!/bin/sh\necho no numbers\n")
        check = self.start("--only", "bench,losses,longest,layouts")
        check.communicate(timeout=60)
        self.assertEqual(check.returncode, 1)
        outcomes = self.outcomes()
        lines = [what for what in outcomes if what.endswith(": a line of JSON")]
        self.assertEqual(len([what for what in lines if what.startswith("bench ")]), 6)
        self.assertEqual(len([what for what in lines if what.startswith("loss with ")]), 9)
        self.assertFalse(any(outcomes[what] for what in lines))
        self.assertTrue(outcomes["trainer, recorded blocks"])

    def test_numbers_that_are_not_finite_fail_their_row_alone(self):
        self.put(self.work / "build" / "bin" / "bench_gpu_step", ODD_STEP)
        self.put(self.work / "build" / "bin" / "bench_gpu_kernels", ODD_KERNELS)
        check = self.start("--only", "bench,losses,kernels")
        output, errors = check.communicate(timeout=120)
        self.assertEqual(check.returncode, 1, errors)
        outcomes = self.outcomes()
        self.assertFalse(outcomes["bench 0.5B, 64 x 1024, keeps all, moments fp32: finite loss"])
        self.assertFalse(outcomes["bench 7B, 8 x 1024, keeps all, moments bf16, accumulate=8: a line of JSON"])
        self.assertFalse(outcomes["the row 8B, 1 x 8192, keeps all, moments bf16, accumulate=8"])  # without its speed
        results = self.results()
        self.assertEqual([row["length"] for row in results["bench"]], [131072, 131072])
        # NaN, as others print it.
        self.assertFalse(outcomes["loss with input, 4 layers: finite loss"])
        self.assertTrue(outcomes["loss with attention is that of the first"])
        self.assertFalse(outcomes["bench_gpu_kernels: a line of JSON"])
        self.assertEqual([row["tflops"] for row in results["kernels"]], [600, None, 500])
        self.assertNotIn("the part ", "".join(outcomes))

    def test_what_is_known_outlives_the_end_by_signal(self):
        check = self.start("--only", "kernels")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if (self.work / "out" / "gpu.json").exists() and len(self.results()["kernels"]) == 3:
                break
            time.sleep(0.1)
        check.send_signal(signal.SIGTERM)
        check.communicate(timeout=30)
        self.assertNotEqual(check.returncode, 0)
        results = self.results()
        self.assertEqual(results["ended"], "signal SIGTERM")
        self.assertEqual([row["tflops"] for row in results["kernels"]], [600, 600, 600])
        left = subprocess.run(["pgrep", "-f", str(self.work / "build" / "bin" / "bench_gpu_kernels")], capture_output=True)
        self.assertEqual(left.stdout, b"")

    def test_the_end_of_the_time_is_no_failure(self):
        check = self.start("--only", "kernels,tests", "--seconds", "7")
        check.communicate(timeout=60)
        self.assertEqual(check.returncode, 0)
        results = self.results()
        self.assertEqual(len(results["kernels"]), 3)
        self.assertIn("out of time", {result["why"] for result in results["not_run"]})

    def test_without_a_gpu_it_ends_with_69(self):
        check = self.start(has_smi=False)
        _, errors = check.communicate(timeout=60)
        if check.returncode != 69:
            self.skipTest("this machine has a GPU")
        self.assertIn("neither nvidia-smi nor PyTorch finds a GPU", errors)


if __name__ == "__main__":
    unittest.main()

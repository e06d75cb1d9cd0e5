"""scripts/gpu-check against programs that only play theirs: what it keeps when they fail, hang, or it is ended itself."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
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
    fits=true
    case "$*" in *"--max_length 131072"*) fits=false;; esac
    echo "note: of the settings {}"
    cat <<end
{
  "fits": $fits, "short_of": "memory of the GPU", "peak_bytes": 128000000000, "host_bytes": 69000000000,
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
if "131072" in sys.argv:
    sys.exit("what does not fit by its plan must not start")
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
if "0.5B" in model and "layers=4" not in sys.argv and length == "1024":
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
FAILING_TEST = """#!/bin/sh
echo 'one'
echo 'tests/ops/on_gpu_test.cpp(60): error: in "on_gpu/rms_norm_both_ways": check distance(gpu.y, host.y) < tolerance has failed [0.3 >= 4e-3]'
echo 'three'
echo 'four'
echo 'five'
echo '*** 1 failure is detected in the test module "ringshard"'
exit 201
"""
SANITIZER = """#!/bin/sh
echo "========= COMPUTE-SANITIZER $*"
for i in $(seq 30); do echo "========= line $i"; done
case "$*" in
*racecheck*) exit 99;;
*--run_test*) exit 99;;
esac
"""
TORCH = """#!/bin/sh
# python3 -c "import torch ...": has no expandable segments
[ "$PYTORCH_ALLOC_CONF" = expandable_segments:True ] && { echo "CUDA driver error: operation not supported"; exit 1; }
echo "(85000000000, 85000000000)"
"""
SAYS_ALLOCATOR = "#!/bin/sh\necho allocator $PYTORCH_ALLOC_CONF\nexit 1\n"


def load_script(name):
    """A script as a module, whose limits a test may change."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


gpu_check = load_script("gpu-check")
import checks  # noqa: E402
import look  # noqa: E402
import shapes  # noqa: E402


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        programs = {"mpirun": MPIRUN, "trainer": TRAINER, "bench_gpu_step": STEP, "bench_gpu_kernels": KERNELS,
                    "kernels_on_gpu_test": FAILING_TEST, "attention_on_gpu_test": PASSES, "nccl_on_gpu_test": PASSES,
                    "cases_parity": PASSES, "forward_parity": PASSES}
        for name, text in programs.items():
            self.put(self.work / "build" / "bin" / name, text)
        self.put(self.work / "path" / "nvidia-smi", NVIDIA_SMI)

    def put(self, file, text):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def start(self, *arguments, has_smi=True, **variables):
        environment = dict(os.environ, OUT=str(self.work / "out"), **variables)
        if has_smi:
            environment["PATH"] = f"{self.work / 'path'}:{os.environ['PATH']}"
        return subprocess.Popen([sys.executable, ROOT / "scripts" / "gpu-check", self.work / "build", *arguments],
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def results(self):
        return json.loads((self.work / "out" / "gpu.json").read_text())

    def outcomes(self):
        return {result["what"]: result["passed"] for result in self.results()["ran"]}

    def test_failures_are_told_and_stop_nothing(self):
        check = self.start("--only", "smoke,nccl,bench,losses,tests,layouts,rows,longest,memcheck")
        output, errors = check.communicate(timeout=120)
        self.assertEqual(check.returncode, 1, errors)
        outcomes = self.outcomes()
        self.assertFalse(outcomes["kernels_on_gpu_test"])
        self.assertTrue(outcomes["attention_on_gpu_test"])
        self.assertTrue(outcomes["nccl_on_gpu_test"])
        self.assertTrue(outcomes["trainer, bf16, rows of 128, cuDNN"])
        self.assertFalse(outcomes["bench 0.5B/4x1024/all/graphs, moments fp32"])
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
        self.assertIn("does not fit the GPU", not_run["bench 8B-8/1x65536/attention/offload/packed, moments bf16"])
        # What does not fit by its plan is not started.
        long = "bench 8B/1x131072/attention/offload/packed, moments bf16"
        why = "does not fit by its plan: short of memory of the GPU, with 128 GB on the GPU and 69 GB in host memory"
        self.assertEqual(not_run[long], why)
        self.assertIn(f"not run {long}: {why}", output)
        self.assertEqual([what for what in outcomes if "131072" in what], [])
        self.assertFalse(any(what.startswith("PyTorch ") for what in [*outcomes, *not_run]))
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
        accumulated = next(row for row in rows if "accumulate=4" in row["words"])
        self.assertIn("--gradient_accumulation_steps 4", accumulated["parts"]["flags"])
        in_fp8 = next(row for row in rows if "fp8" in row["words"])
        self.assertIn("--mixed_precision fp8", in_fp8["parts"]["flags"])

    def test_a_plan_that_fails_leaves_the_row(self):
        self.put(self.work / "build" / "bin" / "trainer", "#!/bin/sh\necho no plan\n")
        check = self.start("--only", "bench")
        check.communicate(timeout=60)
        self.assertEqual(check.returncode, 1)
        results = self.results()
        self.assertEqual(results["bench"][0]["kernels"][0]["name"], "gemm")
        self.assertNotIn("parts", results["bench"][0])
        self.assertFalse(self.outcomes()["trainer plan, 0.5B/64x1024/all: its JSON"])

    def test_a_profile_without_kernels_fails(self):
        self.put(self.work / "build" / "bin" / "bench_gpu_step",
                 STEP.replace('[{"name": "gemm", "count": 1, "microseconds": 5}, {"name": "odd", "count": 2, "microseconds": 3}]', "[]"))
        check = self.start("--only", "bench")
        check.communicate(timeout=60)
        self.assertEqual(check.returncode, 1)
        self.assertFalse(self.outcomes()["kernels in the profile of 0.5B/64x1024/all"])
        self.assertEqual(self.results()["bench"][0]["tokens_per_second"], 1000)

    def test_a_gpu_without_a_plan_leaves_the_row(self):
        self.put(self.work / "path" / "nvidia-smi", NVIDIA_SMI.replace("H100 80GB HBM3", "L4"))
        check = self.start("--only", "bench")
        check.communicate(timeout=60)
        results = self.results()
        self.assertNotIn("parts", results["bench"][0])
        self.assertIn("there is no plan for this GPU", {result["why"] for result in results["not_run"]})

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
        self.assertFalse(outcomes["bench 0.5B/64x1024/all, moments fp32: finite loss"])
        self.assertFalse(outcomes["bench 7B-11/8x1024/everything/accumulate=4/timed, moments bf16: a line of JSON"])
        self.assertFalse(outcomes["the row 8B-12/1x8192/everything/accumulate=4/timed"])  # without its speed
        results = self.results()
        self.assertEqual([row["length"] for row in results["bench"]], [4096])
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

    def test_a_failure_shows_its_reason_and_runs_again_under_memcheck(self):
        self.put(self.work / "path" / "compute-sanitizer", SANITIZER)
        check = self.start("--only", "smoke,memcheck")
        output, errors = check.communicate(timeout=60)
        self.assertEqual(check.returncode, 1, errors)
        lines = output.splitlines()
        failed = lines.index(next(line for line in lines if line.startswith("FAILED kernels_on_gpu_test")))
        self.assertIn("rms_norm_both_ways", lines[failed + 1])  # the first of the last five lines
        self.assertNotIn("       one", lines)
        reports = {report["what"]: report["output"] for report in self.results()["reports"]}
        report = reports["kernels_on_gpu_test, on_gpu/rms_norm_both_ways, under memcheck"]
        self.assertIn("--tool memcheck", report)
        self.assertTrue(report.splitlines()[0].endswith("kernels_on_gpu_test --run_test=on_gpu/rms_norm_both_ways"))
        shown = lines[lines.index("       kernels_on_gpu_test, on_gpu/rms_norm_both_ways, under memcheck:") + 1:]
        self.assertEqual(shown[19], "       ========= line 19")
        self.assertNotIn("========= line 20", shown[20])
        # The part memcheck takes small shapes, and shows the report of the tool that finds something.
        outcomes = self.outcomes()
        self.assertTrue(outcomes["compute-sanitizer memcheck"])
        self.assertFalse(outcomes["compute-sanitizer racecheck"])
        self.assertTrue(outcomes["compute-sanitizer initcheck"])
        self.assertTrue(reports["compute-sanitizer racecheck"].splitlines()[0].endswith("kernels_on_gpu_test -- small"))

    def test_without_a_sanitizer_a_failure_says_so(self):
        self.put(self.work / "build" / "bin" / "nccl_on_gpu_test", "#!/bin/sh\necho a hang\nexit 1\n")
        check = self.start("--only", "nccl")
        output, _ = check.communicate(timeout=60)
        self.assertEqual(check.returncode, 1)
        not_run = {result["what"]: result["why"] for result in self.results()["not_run"]}
        if "nccl_on_gpu_test, all of it, under memcheck" not in not_run:
            self.skipTest("this machine has compute-sanitizer")
        self.assertIn("FAILED nccl_on_gpu_test (0 s)\n       a hang\n", output)

    def test_only_the_last_line_says_that_there_is_no_gpu(self):
        program = self.work / "build" / "bin" / "nccl_on_gpu_test"
        for text, passed in (("no GPU here", None), ("no GPU here\nthe other suite has one", True), ("no GPU here, or is there", True)):
            self.put(program, f"#!/bin/sh\necho '{text}'\n")
            check = self.start("--only", "nccl")
            check.communicate(timeout=60)
            self.assertEqual(self.outcomes().get("nccl_on_gpu_test"), passed, text)

    def test_rows_are_chosen_by_the_beginning_of_their_names(self):
        check = self.start("--rows", "0.5B/64x1024/everything,1.5B")
        check.communicate(timeout=60)
        names = ["/".join([row["model"], f"{row['rows']}x{row['length']}", row["policy"], *row["words"]])
                 for row in self.results()["bench"]]
        self.assertEqual(names, ["0.5B/64x1024/everything/timed", "1.5B/32x1024/everything/accumulate=2/timed", "1.5B/32x1024/all",
                                 "1.5B/1x65536/attention"])
        check = self.start("--rows", "0.5B/64x102")
        _, errors = check.communicate(timeout=60)
        self.assertEqual(check.returncode, 2)
        self.assertIn("--rows 0.5B/64x102: the rows are 0.5B/64x1024/all, ", errors)

    def test_pytorch_is_measured_on_demand(self):
        module = self.work / "modules"
        for name in ("torch", "transformers"):
            self.put(module / f"{name}.py", "raise RuntimeError('measures nothing')\n")
        check = self.start("--rows", "0.5B/64x1024/all", "--beside-torch", PYTHONPATH=str(module))
        check.communicate(timeout=60)
        self.assertIn("PyTorch beside ours", {result["what"] for result in self.results()["not_run"]})

    def test_without_expandable_segments_the_allocator_does_without(self):
        (self.work / "modules" / "torch" / "lib").mkdir(parents=True)
        self.put(self.work / "build" / "bin" / "nccl_on_gpu_test", SAYS_ALLOCATOR)
        self.put(self.work / "python3", TORCH)
        results = self.run_in_process("nccl", PYTHON=str(self.work / "python3"), modules=self.work / "modules")
        self.assertIn("this machine has none, so they are off: CUDA driver error: operation not supported",
                      {result["why"] for result in results["not_run"]})
        ran = {result["what"]: result for result in results["ran"]}
        self.assertTrue(ran["memory of the GPU without expandable segments"]["passed"])
        self.assertIn("allocator expandable_segments:False", ran["nccl_on_gpu_test"]["output"])

    def test_a_loopback_interface_that_is_down_is_told(self):
        self.put(self.work / "flags", "0x8\n")
        before, look.LOOPBACK = look.LOOPBACK, self.work / "flags"
        self.addCleanup(setattr, look, "LOOPBACK", before)
        self.put(self.work / "path" / "ip", "#!/bin/sh\nexit 2\n")
        results = self.run_in_process("nccl")
        self.assertIn({"what": "loopback interface", "passed": False, "seconds": 0.0,
                       "output": "the interface lo is down, and MPI_Init fails without it: ip link set lo up"}, results["ran"])
        # Root starts it.
        self.put(self.work / "path" / "ip", f"#!/bin/sh\necho 0x9 > {self.work / 'flags'}\n")
        results = self.run_in_process("nccl")
        self.assertTrue(next(result for result in results["ran"] if result["what"] == "loopback interface")["passed"])

    def run_in_process(self, part, PYTHON=sys.executable, modules=None):
        """The parts of the script with this module's own Python, modules and limits."""
        path, executable = list(sys.path), sys.executable
        search = os.environ["PATH"]
        try:
            sys.executable = PYTHON
            sys.path[:0] = [str(modules)] if modules else []
            os.environ["PATH"] = f"{self.work / 'path'}:{search}"
            results = gpu_check.Results(self.work / "out" / "gpu.json", gpu_check.gpu_facts())
            with contextlib.redirect_stdout(io.StringIO()):
                gpu_check.run_parts(gpu_check.Check(self.work / "build", 60, results), [part])
        finally:
            sys.path[:], sys.executable, os.environ["PATH"] = path, executable, search
        return results.content

    def test_each_part_ends_with_its_limit(self):
        """Programs that hang, and limits of two seconds."""
        self.addCleanup(gpu_check.LIMITS.update, dict(gpu_check.LIMITS))
        self.addCleanup(setattr, checks, "LEAST_SECONDS", checks.LEAST_SECONDS)
        checks.LEAST_SECONDS = 1
        for name in ("trainer", "bench_gpu_step", "bench_gpu_kernels", "kernels_on_gpu_test", "attention_on_gpu_test", "nccl_on_gpu_test",
                     "cases_parity", "forward_parity", "families_parity", "recorded_blocks_test"):
            self.put(self.work / "build" / "bin" / name, "#!/bin/sh\nsleep 600\n")
        self.put(self.work / "path" / "compute-sanitizer", "#!/bin/sh\nsleep 600\n")
        for part in gpu_check.PARTS:
            gpu_check.LIMITS[part] = 2
            begin = time.monotonic()
            results = self.run_in_process(part)
            self.assertLess(time.monotonic() - begin, 10, part)
            self.assertIn("out of time", " ".join(result["why"] for result in results["not_run"]), part)

    def test_the_first_quarter_of_an_hour_fits(self):
        """The calls that docs/gpus.md plans: each within its own seconds, and the two that wait for nobody within 470."""
        page = (ROOT / "docs" / "gpus.md").read_text()
        calls = re.findall(r"^scripts/gpu-check \S+ --seconds (\d+) --only (\S+)", page, re.MULTILINE)
        self.assertGreaterEqual(len(calls), 5)
        for seconds, parts in calls:
            planned = gpu_check.LOOKING + sum(gpu_check.LIMITS[part] for part in parts.split(","))
            self.assertLessEqual(planned, int(seconds), parts)
        table = {part: int(seconds) for part, seconds in re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE)}
        self.assertEqual({part: seconds for part, seconds in table.items() if part in gpu_check.PARTS}, gpu_check.LIMITS)
        first_two = calls[0][1].split(",") + calls[1][1].split(",")
        self.assertEqual(first_two, [*gpu_check.FIRST_CALL, "bench"])
        self.assertLess(2 * gpu_check.LOOKING + sum(gpu_check.LIMITS[part] for part in first_two), 470)

    def test_the_sources_are_small_enough_to_travel(self):
        """They go to a lent machine beside the archive, within 64 MiB in all."""
        bundle = load_script("bundle")
        if bundle.size_of_sources() == 0:
            self.skipTest("no repository")
        self.assertLess(bundle.size_of_sources(), bundle.LIMIT_OF_SOURCES,
                        "git ls-files has more bytes than the limit: put fewer numbers into data of tests, or pack them")
        self.assertLessEqual(bundle.LIMIT_OF_SOURCES + bundle.LIMIT_WITH_TESTS, 64 << 20)

    def test_rows_of_an_h100_are_planned_to_fit_it(self):
        """The real plan, if there is a program: what `bench` measures has room on a GPU with 80 GB, and the time fits the part."""
        trainer = os.environ.get("TRAINER")
        if trainer is None:
            self.skipTest("no trainer")
        for row in shapes.ROWS:
            if row["part"] == "bench" or row["model"] == "8B-8":
                self.put(self.work / "model" / "config.json", json.dumps(shapes.config_of(row)))
                found = subprocess.run([trainer, "plan", "--model_name_or_path", self.work / "model", *shapes.plan_flags(row),
                                        "--gpu", "h100-80", "--json"], capture_output=True, text=True)
                plan = gpu_check.plan_in(found.stdout)
                self.assertIsNotNone(plan, found.stderr)
                self.assertTrue(plan["fits"], f"{shapes.name_of(row)}: short of {plan['short_of']}")

    def test_without_a_gpu_it_ends_with_69(self):
        check = self.start(has_smi=False)
        _, errors = check.communicate(timeout=60)
        if check.returncode != 69:
            self.skipTest("this machine has a GPU")
        self.assertIn("neither nvidia-smi nor PyTorch finds a GPU", errors)


if __name__ == "__main__":
    unittest.main()

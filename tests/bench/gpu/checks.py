"""For scripts/gpu-check: commands within a limit of time, their results in a file, and the GPUs of the machine."""

import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time


class Results:
    """What is known, in a file that is whole after every line: whatever ends this script, nothing is lost."""

    def __init__(self, file, gpus):
        self.file = file
        self.content = {"date": datetime.date.today().isoformat(), "gpus": gpus, "ended": "not yet", "ran": [], "not_run": [],
                        "bench": [], "losses": [], "kernels": [], "longest": []}

    def add(self, part, row):
        self.content[part].append(row)
        self.save()

    def save(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        half_written = self.file.with_suffix(".tmp")
        half_written.write_text(json.dumps(self.content, indent=1) + "\n")
        half_written.rename(self.file)

    def all_passed(self):
        return all(result["passed"] for result in self.content["ran"])


class Check:
    def __init__(self, folder, seconds, results):
        self.folder = folder
        self.end = time.monotonic() + seconds
        self.results = results
        self.variables = variables_of_programs()
        self.mpirun = str(folder / "bin" / "mpirun") if (folder / "bin" / "mpirun").exists() else shutil.which("mpirun")

    def left(self):
        return self.end - time.monotonic()

    def program(self, name):
        for place in (self.folder / "bin" / name, self.folder / name, self.folder / "tests" / name):
            if place.exists():
                return str(place)
        return None

    def skip(self, what, why):
        self.results.add("not_run", {"what": what, "why": why})

    def run(self, what, command, most=120, says="", is_ours=True, each_line=None, **variables):
        """Runs a command; its outcome becomes a result: it ends with 0 and says something. Returns its output, or None.
        With is_ours False a command that fails is noted, and does not fail the check. each_line gets each line of the output."""
        if command[0] is None:
            return self.skip(what, "not in the folder")
        if self.left() < 5:
            return self.skip(what, "out of time")
        begin = time.monotonic()
        environment = dict(os.environ, **self.variables, **variables)
        # The tests of a bundle find LibTorch and CUDA where this Python has them; the driver may be in LD_LIBRARY_PATH.
        if any("/tests/" in str(word) for word in command):
            before = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
            environment["LD_LIBRARY_PATH"] = ":".join(libraries_of_python() + before)
        seconds = min(most, self.left())
        code, output = run_for(seconds, [str(word) for word in command], environment, each_line)
        passed = code == 0 and says in output
        if "no GPU here" in output or (code is None and seconds < most):
            return self.skip(what, "no GPU here" if "no GPU here" in output else f"out of time after: {last_line(output)}")
        if any(words in output for words in ("has no room for another", "CUDA out of memory")):
            return self.skip(what, f"does not fit the GPU: {last_line(output)}")
        if not passed and not is_ours:
            print(f"       {what}: {last_line(output)}", flush=True)
            return self.skip(what, output[-1000:])
        return self.judge(what, passed, output, time.monotonic() - begin)

    def judge(self, what, passed, output, seconds=0.0):
        self.results.add("ran", {"what": what, "passed": passed, "seconds": round(seconds, 1),
                                 **({} if passed else {"output": output[-3000:]})})
        print(f"{'ok    ' if passed else 'FAILED'} {what} ({seconds:.0f} s)", flush=True)
        return output if passed else None

    def on_ranks(self, ranks, command):
        if self.mpirun is None or command[0] is None:
            return [None]
        return [self.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]


def last_line(output):
    return (output.strip().splitlines() or ["no word"])[-1]


def end_group(process, pipe_reader):
    """What a program started goes with it: a rank that is left behind would keep its part of the GPU."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        pipe_reader.join(5)
        if not pipe_reader.is_alive():
            break
    process.wait()


def run_for(seconds, command, environment, each_line=None):
    """Its code and its output."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               env=environment, start_new_session=True)
    lines = []

    def read():
        for line in process.stdout:
            lines.append(line)
            if each_line:
                each_line(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        reader.join(seconds)
        if not reader.is_alive():
            return process.wait(), "".join(lines)
        end_group(process, reader)
        return None, "".join(lines) + f"\nlonger than {seconds:.0f} s"
    except BaseException:  # SIGTERM or SIGINT to this script
        end_group(process, reader)
        raise


def torch_of_python():
    return next((pathlib.Path(path) / "torch" for path in sys.path if (pathlib.Path(path) / "torch" / "lib").exists()), None)


def variables_of_programs():
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                 # Containers may forbid a process to read another one's memory, and Open MPI finds out too late.
                 "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                 # As the program sets it: tests and benchmarks, and PyTorch, load their libraries before they could.
                 "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    if torch_of_python() is not None:
        variables["RINGSHARD_TORCH_DIR"] = str(torch_of_python())
    return {name: value for name, value in variables.items() if name not in os.environ}


def libraries_of_python():
    torch = torch_of_python()
    if torch is None:
        return []
    return [str(torch / "lib"), *(str(folder) for folder in torch.parent.glob("nvidia/*/lib"))]


def gpu_facts():
    query = "name,memory.total,driver_version,clocks.max.sm,power.limit,compute_cap"
    try:
        text = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True,
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return gpu_facts_of_torch()
    return [dict(zip(query.split(","), [field.strip() for field in line.split(",")])) for line in text.splitlines()]


def gpu_facts_of_torch():
    """Containers without nvidia-smi have GPUs all the same."""
    program = """
import json, torch
gpus = [torch.cuda.get_device_properties(gpu) for gpu in range(torch.cuda.device_count())]
print(json.dumps([{"name": gpu.name, "memory.total": f"{gpu.total_memory >> 20} MiB",
                   "compute_cap": f"{gpu.major}.{gpu.minor}"} for gpu in gpus]))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return json.loads(found.stdout) if found.returncode == 0 else []

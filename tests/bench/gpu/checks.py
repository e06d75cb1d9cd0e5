"""For scripts/gpu-check: commands within a limit of time, and their results in a file."""

import contextlib
import datetime
import json
import os
import shutil
import signal
import subprocess
import threading
import time

from machine import library_folders, variables_of_programs

SHOWN_OF_A_FAILURE = 5  # lines
LEAST_SECONDS = 5  # with fewer no command is started


class Results:
    """What is known, in a file that is whole after every line: whatever ends this script, nothing is lost."""

    def __init__(self, file, gpus):
        self.file = file
        self.content = {"date": datetime.date.today().isoformat(), "gpus": gpus, "ended": "not yet", "ran": [], "not_run": [],
                        "bench": [], "losses": [], "kernels": [], "longest": [], "reports": []}

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
        self.end_of_part = self.end
        self.results = results
        self.beside_torch = False  # PyTorch's steps are measured too
        self.rows = []  # names of the rows to measure; empty: all
        self.variables = variables_of_programs()
        self.mpirun = str(folder / "bin" / "mpirun") if (folder / "bin" / "mpirun").exists() else shutil.which("mpirun")

    @contextlib.contextmanager
    def part_of(self, seconds):
        """Within it no command runs longer than this."""
        self.end_of_part = min(self.end, time.monotonic() + seconds)
        try:
            yield
        finally:
            self.end_of_part = self.end

    def left(self):
        return self.end_of_part - time.monotonic()

    def has_time(self):
        return self.left() >= LEAST_SECONDS

    def program(self, name):
        for place in (self.folder / "bin" / name, self.folder / name, self.folder / "tests" / name):
            if place.exists():
                return str(place)
        return None

    def skip(self, what, why):
        self.results.add("not_run", {"what": what, "why": why})
        print(f"not run {what}: {last_line(why)}", flush=True)

    def run(self, what, command, most=120, says="", is_ours=True, each_line=None, **variables):
        """Runs a command; its outcome becomes a result: it ends with 0 and says something. Returns its output, or None.
        With is_ours False a command that fails is noted, and does not fail the check. each_line gets each line of the output."""
        if command[0] is None:
            return self.skip(what, "not in the folder")
        if not self.has_time():
            return self.skip(what, "out of time")
        begin = time.monotonic()
        seconds = min(most, self.left())
        code, output = self.attempt(command, most, each_line, variables)
        passed = code == 0 and says in output
        if code == 0 and last_line(output) == "no GPU here":
            return self.skip(what, "no GPU here")
        if code is None and seconds < most:
            return self.skip(what, f"out of time after: {last_line(output)}")
        if any(words in output for words in ("has no room for another", "CUDA out of memory")):
            return self.skip(what, f"does not fit the GPU: {last_line(output)}")
        if not passed and not is_ours:
            return self.skip(what, output[-1000:])
        return self.judge(what, passed, output, time.monotonic() - begin)

    def attempt(self, command, most, each_line=None, variables=None):
        """Runs a command, and judges nothing. Returns its code, None if it took longer, and its output."""
        return run_for(min(most, self.left()), [str(word) for word in command], self.environment(command, variables or {}), each_line)

    def environment(self, command, variables):
        """The tests of a bundle find LibTorch and CUDA where this Python has them; the driver may be in LD_LIBRARY_PATH."""
        environment = dict(os.environ, **self.variables)
        environment.update(variables)
        if any("/tests/" in str(word) for word in command):
            before = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
            environment["LD_LIBRARY_PATH"] = ":".join([str(folder) for folder in library_folders()] + before)
        return environment

    def judge(self, what, passed, output, seconds=0.0):
        self.results.add("ran", {"what": what, "passed": passed, "seconds": round(seconds, 1),
                                 **({} if passed else {"output": excerpt(output)})})
        print(f"{'ok    ' if passed else 'FAILED'} {what} ({seconds:.0f} s)", flush=True)
        if not passed:
            self.show(output.strip().splitlines()[-SHOWN_OF_A_FAILURE:])
        return output if passed else None

    @staticmethod
    def show(lines):
        print("\n".join(f"       {line}" for line in lines), flush=True)

    def on_ranks(self, ranks, command):
        if self.mpirun is None or command[0] is None:
            return [None]
        return [self.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]


def excerpt(output, most=3000):
    """Its beginning, which has the first failure, and its end."""
    return output if len(output) <= most else f"{output[:most // 2]}\n...\n{output[-most // 2:]}"


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
        with process.stdout:
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

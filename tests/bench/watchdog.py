#!/usr/bin/env python3
"""What the watchdog costs a step of some 20 ms: zero3 on two ranks.

    tests/bench/watchdog.py [--repetitions 3]

The cost is the time that the thread "watchdog" of a rank was on a core (from /proc, while the run goes on), and what
noting takes: the operations of a step (counted in the page that a rank writes when it hangs, which is made to happen
at the end) times the time to note one (bench_flight_recorder). Its share is that of the time of the steps.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import models
from bench_file import BUILD, json_lines, median, write

RANKS = 2
STEPS = 1000
SHAPE = models.SHAPES["a"] | {"rows": 4, "tokens": 128}


def seconds_on_core(pid):
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "watchdog":
            return int((task / "schedstat").read_text().split()[0]) / 1e9
    return None


def trainers(launcher):
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if (folder / "comm").read_text().strip() == "trainer" and \
                        int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == launcher:
                    found.append(int(folder.name))
            except OSError:
                pass
    return found


def step_lines(output):
    path = output / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []
    return [line for line in lines if "loss" in line]


def run(folder, rows, output, seconds_per_note):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS),
               "-x", "OMP_NUM_THREADS=1", "-x", f"RINGSHARD_FAULT=step:{STEPS}:spin@1",
               BUILD / "bin" / "trainer", "train", "--profile", "zero3", "--model_name_or_path", folder,
               "--dataset_name", rows, "--output_dir", output, "--data_cache_dir", folder.parent / "cache",
               "--max_steps", str(STEPS), "--max_length", str(SHAPE["tokens"]),
               "--per_device_train_batch_size", str(SHAPE["rows"]), "--bf16", "false", "--logging_steps", "1",
               "--save_strategy", "no", "--hang_timeout_s", "8"]
    job = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while len(step_lines(output)) < 100:
            time.sleep(0.2)
        ranks = trainers(job.pid)
        first = [(time.monotonic(), seconds_on_core(pid)) for pid in ranks]
        while len(step_lines(output)) < STEPS - 100:
            time.sleep(0.2)
        shares = [(seconds_on_core(pid) - used) / (time.monotonic() - since)
                  for pid, (since, used) in zip(ranks, first, strict=True)]
        job.wait(60)
    finally:
        if job.poll() is None:
            job.send_signal(signal.SIGTERM)
    step = median([line["step_time_s"] for line in step_lines(output)])
    page = (output / "attempt-1" / "hang-rank0.txt").read_text()
    operations = sum(int(number) for number in re.findall(r": (\d+) begun,", page)) / STEPS
    noting = operations * seconds_per_note / step
    return {"step_s": step, "thread_share": max(shares), "operations_per_step": operations,
            "seconds_per_note": seconds_per_note, "noting_share": noting, "share": max(shares) + noting, "bar": 0.005}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    repetitions = parser.parse_args().repetitions
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        folder = models.make_model(SHAPE, scratch / "model")
        models.add_tokenizer(folder)
        data = models.write_input_ids(models.random_rows(SHAPE, rows=64), scratch / "rows.jsonl")
        for turn in range(repetitions):
            per_note = json_lines([os.path.join(BUILD, "bin", "bench_flight_recorder")])[0]["seconds_per_operation"]
            rows.append(run(folder, data, scratch / f"run-{turn}", per_note))
    write("watchdog", __doc__, " ".join(sys.argv), rows)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How much of the gathering of weights hides behind the computation: zero3 on two ranks, with messages that leave 5 ms late.

    tests/bench/overlap.py [--repetitions 3]

A unit is gathered while the one before it computes. The delay (RINGSHARD_TEST_COMM_DELAY_US, a sleep that takes no core)
is added to every gather and to every reduction; what a rank still waits for, it waits for in the open (comm_wait_s).
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import models
from bench_file import BUILD, median, write

DELAY_US = 5000
RANKS = 2
SHAPE = models.SHAPES["b"] | {"rows": 2, "tokens": 512}
STEPS = 6


def comm_wait(folder, rows, output, delay_us):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS),
               "-x", "OMP_NUM_THREADS=1", "-x", f"RINGSHARD_TEST_COMM_DELAY_US={delay_us}",
               BUILD / "bin" / "trainer", "train", "--profile", "zero3", "--model_name_or_path", folder,
               "--dataset_name", rows, "--output_dir", output, "--data_cache_dir", folder.parent / "cache",
               "--max_steps", str(STEPS), "--max_length", str(SHAPE["tokens"]), "--per_device_train_batch_size", "2",
               "--bf16", "false", "--logging_steps", "1", "--save_strategy", "no"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line][1:]  # the first one meets cold memory
    return (median([line["comm_wait_s"] for line in steps]), median([line["step_time_s"] for line in steps]))


def measure(repetitions):
    # Every unit is gathered forward and backward, but for the vocabulary and the last block, which stay in between.
    gathers = 2 * SHAPE["layers"]
    reductions = SHAPE["layers"] + 1
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        folder = models.make_model(SHAPE, scratch / "model")
        models.add_tokenizer(folder)
        data = models.write_input_ids(models.random_rows(SHAPE, rows=2 * RANKS * STEPS), scratch / "rows.jsonl")
        for turn in range(repetitions):
            prompt = comm_wait(folder, data, scratch / f"prompt-{turn}", 0)
            late = comm_wait(folder, data, scratch / f"late-{turn}", DELAY_US)
            delay = (gathers + reductions) * DELAY_US / 1e6
            rows.append({"wait_prompt_s": prompt[0], "step_prompt_s": prompt[1], "wait_late_s": late[0],
                         "step_late_s": late[1], "delay_in_all_s": delay,
                         "hidden": 1 - max(0.0, late[0] - prompt[0]) / delay, "floor": 0.7})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    write("overlap", __doc__, " ".join(sys.argv), measure(parser.parse_args().repetitions))


if __name__ == "__main__":
    main()

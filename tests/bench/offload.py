#!/usr/bin/env python3
"""A model in memory and in files: time of a step, and the memory of the process beside what the metrics count.

    .deps/venv/bin/python tests/bench/offload.py [--folder /scratch] [--steps 4] [--layers 12]

zero3 on one rank of one thread, fp32; of 12 layers it has 151M parameters: weights, gradients and moments are 2.4 GB. `files` has all of them in
files of the folder. The step times are medians without the first step; the sides take turns. growth_mb is what the process
gained at most over one that trains a model of no size; counted_mb is the sum of the kinds in the metrics, and counted_share
should be within 10 % of 1 where the state is in memory. limited_to_mb: the run in files is repeated under that limit of
private memory (RLIMIT_DATA), a tenth of the state beyond what an empty process has; it must come to the same losses.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import models
from bench_file import median, write

SHAPE = {"hidden": 1024, "intermediate": 2816, "layers": 12, "heads": 16, "key_heads": 4, "vocab": 8192, "rows": 1,
         "tokens": 1024}
NO_SIZE = models.SHAPES["t"] | {"tokens": 1024}
KINDS = ("weights", "gathered", "gradients", "optimizer", "activations", "communication", "staging")


def train(folder, rows, output, steps, places=(), limit=None):
    settings = {"profile": "zero3", "bf16": False, "max_steps": steps, "max_length": 1024, "gradient_checkpointing": True,
                "per_device_train_batch_size": 1, "logging_steps": 1, "save_strategy": "no", "learning_rate": 1e-4}
    command = models.trainer_command(folder, rows, output, settings) + list(places)
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    limits = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, preexec_fn=limits)
    if result.returncode:
        sys.exit(f"{output.name} ended with {result.returncode}:\n{result.stderr[-3000:]}")
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    return {"losses": [line["loss"] for line in steps], "peak": steps[-1]["peak_memory_bytes"],
            "counted": max(sum(line[f"memory_{kind}_bytes"] for kind in KINDS) for line in steps),
            "at_rest": sum(steps[-1][f"memory_{kind}_bytes"] for kind in ("weights", "gradients", "optimizer")),
            "seconds": [line["step_time_s"] for line in steps[1:]]}


def make(shape, folder, steps):
    models.make_model(shape, folder)
    models.add_tokenizer(folder)
    return folder, models.write_input_ids(models.random_rows(shape, rows=steps), folder.parent / f"{folder.name}.jsonl")


def measure(shape, place, steps, repetitions):
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        scratch = pathlib.Path(scratch)
        small = make(NO_SIZE, scratch / "small", steps)
        large = make(shape, scratch / "large", steps)
        files = ["--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", scratch,
                 "--offload_param_device", "nvme", "--offload_param_nvme_path", scratch]
        empty = train(*small, scratch / "empty", steps)
        base = empty["peak"] - empty["counted"]
        runs = {"memory": [], "files": []}
        for turn in range(repetitions):
            runs["memory"].append(train(*large, scratch / f"memory-{turn}", steps))
            runs["files"].append(train(*large, scratch / f"files-{turn}", steps, files))
        state = runs["memory"][0]["at_rest"]
        limit = LIMIT_BASE + state // 10 + runs["files"][0]["counted"] - runs["files"][0]["at_rest"]
        limited = train(*large, scratch / "limited", steps, files, limit)
        if not limited["losses"] == runs["files"][0]["losses"] == runs["memory"][0]["losses"]:
            sys.exit(f"the losses differ: {limited['losses']}, {runs}")
    rows = []
    for name, side in runs.items():
        seconds = median([second for run in side for second in run["seconds"]])
        growth = median([run["peak"] for run in side]) - base
        counted = median([run["counted"] for run in side])
        rows.append({"where": name, "step_s": seconds, "state_mb": state / 1e6, "counted_mb": counted / 1e6,
                     "growth_mb": growth / 1e6, "counted_share": growth / counted, "state_per_counted": state / counted})
    in_memory = rows[0]["step_s"]
    for row in rows:
        row["time_to_memory"] = row["step_s"] / in_memory
    rows[1]["limited_to_mb"] = limit / 1e6
    rows[0]["limited_to_mb"] = None
    return rows


# Private memory of a process before there is a model: libraries, stacks of threads, buffers of MPI.
LIMIT_BASE = 400 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--layers", type=int, default=SHAPE["layers"])
    arguments = parser.parse_args()
    shape = SHAPE | {"layers": arguments.layers}
    write(f"offload-{arguments.layers}-layers", __doc__ + f"\n{shape}", " ".join(sys.argv),
          measure(shape, arguments.folder, arguments.steps, arguments.repetitions))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What blocks keep for their backward pass, in memory and in a file: time of a step, and the memory of activations.

    .deps/venv/bin/python tests/bench/activations.py [--folder /scratch] [--steps 4] [--repetitions 2]

One rank of one thread, fp32, rows of 4,096 tokens. The step times are medians without the first step; the sides take turns.
`file` is activation_offloading; it must come to the same losses, to the bit.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import models
from bench_file import median, write

SHAPE = {"hidden": 512, "intermediate": 1408, "layers": 12, "heads": 8, "key_heads": 2, "vocab": 4096, "rows": 4,
         "tokens": 4096}
SETTINGS = {"bf16": False, "max_length": SHAPE["tokens"], "per_device_train_batch_size": 1, "logging_steps": 1,
            "save_strategy": "no"}


def train(folder, rows, output, settings):
    command = models.trainer_command(folder, rows, output, SETTINGS | settings)
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if result.returncode:
        sys.exit(f"{output.name} ended with {result.returncode}:\n{result.stderr[-3000:]}")
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def measure(place, steps, repetitions):
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        scratch = pathlib.Path(scratch)
        models.make_model(SHAPE, scratch / "model")
        models.add_tokenizer(scratch / "model")
        data = models.write_input_ids(models.random_rows(SHAPE), scratch / "rows.jsonl")
        runs = {}
        for turn in range(repetitions):
            for policy in ("attention", "all", "input"):
                for where in ("memory", "file"):
                    settings = {"activation_policy": policy, "max_steps": steps}
                    if where == "file":
                        settings |= {"activation_offloading": True, "offload_param_nvme_path": str(scratch)}
                    runs.setdefault((policy, where), []).append(
                        train(scratch / "model", data, scratch / f"{policy}-{where}-{turn}", settings))
    rows = []
    for (policy, where), sides in runs.items():
        if any([line["loss"] for line in side] != [line["loss"] for line in runs[policy, "memory"][0]] for side in sides):
            sys.exit(f"{policy}: the losses in a file differ from those in memory")
        seconds = median([line["step_time_s"] for side in sides for line in side[1:]])
        in_memory = next((row["step_s"] for row in rows if row["policy"] == policy), seconds)
        last = sides[0][-1]
        rows.append({"policy": policy, "where": where, "step_s": seconds, "time_to_memory": seconds / in_memory,
                     "activations_mb": last["memory_activations_bytes"] / 1e6,
                     "staging_mb": last["memory_staging_bytes"] / 1e6, "process_mb": last["peak_memory_bytes"] / 1e6})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=2)
    arguments = parser.parse_args()
    write("activations", __doc__ + f"\n{SHAPE}", " ".join(sys.argv),
          measure(arguments.folder, arguments.steps, arguments.repetitions))


if __name__ == "__main__":
    main()

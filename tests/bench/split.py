#!/usr/bin/env python3
"""One row of 16,384 tokens on one rank and on two, in every way to split it: one document, and a long one among short ones.

    .deps/venv/bin/python tests/bench/split.py [--repetitions 3]

A small model, so that attention is nearly all of the work; one thread to a rank, fp32. step_s is the median of the runs, which
take turns; wait_s is what the rank that waited most waited for the other; worst_to_mean is attention_work_worst_to_mean.
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

SHAPE = {"hidden": 64, "intermediate": 176, "layers": 3, "heads": 4, "key_heads": 2, "vocab": 512, "rows": 1, "tokens": 16384}
DOCUMENTS = {"one": [16384], "uneven": [12000, 1500, 1200, 900, 500, 200, 50, 34]}
WAYS = {"one rank": (1, []), "ring": (2, ["--cp_size", "2"]),
        "allgather": (2, ["--cp_size", "2", "--cp_comm_strategy", "allgather"]), "ulysses": (2, ["--sp_size", "2"])}
STEPS = 3


def train(folder, rows, output, ranks, flags):
    settings = {"bf16": False, "profile": "zero3", "max_length": SHAPE["tokens"], "packing": True, "max_steps": STEPS,
                "per_device_train_batch_size": 1, "logging_steps": 1, "save_strategy": "no"}
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
               *models.trainer_command(folder, rows, output, settings), *flags]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if result.returncode:
        sys.exit(f"{output.name} ended with {result.returncode}:\n{result.stderr[-3000:]}")
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line][1:]


def measure(repetitions):
    runs = {}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        models.make_model(SHAPE, scratch / "model")
        models.add_tokenizer(scratch / "model")
        data = {}
        for kind, lengths in DOCUMENTS.items():
            documents = [models.random_rows(SHAPE, 1, length)[0] for _ in range(STEPS) for length in lengths]
            data[kind] = models.write_input_ids(documents, scratch / f"{kind}.jsonl")
        for turn in range(repetitions):
            for kind, file in data.items():
                for way, (ranks, flags) in WAYS.items():
                    output = scratch / f"{kind}-{way.replace(' ', '-')}-{turn}"
                    runs.setdefault((kind, way), []).extend(train(scratch / "model", file, output, ranks, flags))
    rows = []
    for (kind, way), lines in runs.items():
        seconds = median([line["step_time_s"] for line in lines])
        on_one = next((row["step_s"] for row in rows if row["documents"] == kind), seconds)
        rows.append({"documents": kind, "way": way, "step_s": seconds, "times_as_fast": on_one / seconds,
                     "wait_s": median([line["comm_wait_s"] for line in lines]),
                     "worst_to_mean": lines[0].get("attention_work_worst_to_mean", 1.0)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    write("split", __doc__ + f"\n{SHAPE}\n{DOCUMENTS}", " ".join(sys.argv), measure(arguments.repetitions))


if __name__ == "__main__":
    main()

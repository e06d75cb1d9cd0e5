#!/usr/bin/env python3
"""The time of a step as `trainer plan` predicts it, beside the time it takes: ten configurations on 1, 2 and 4 ranks.

    tests/bench/plan.py [--repetitions 3]

The rates are those of `trainer doctor --measure` on as many ranks, measured before every run. A run takes eight steps;
its time is the median of the last six.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import models
from bench_file import BUILD, median, write

SHAPE = models.SHAPES["b"]
# ranks, flags, rows, tokens of a row
CASES = [
    (1, ["--profile", "single_gpu", "--activation_policy", "attention"], 2, 512),
    (1, ["--profile", "single_gpu", "--activation_policy", "all"], 2, 512),
    (1, ["--profile", "single_gpu", "--activation_policy", "input"], 1, 2048),
    (1, ["--profile", "single_gpu", "--activation_policy", "attention", "--bf16", "true"], 2, 512),
    (2, ["--profile", "multi_gpu", "--activation_policy", "attention"], 2, 512),
    (2, ["--profile", "zero2", "--activation_policy", "attention"], 2, 512),
    (2, ["--profile", "zero3", "--activation_policy", "attention"], 2, 512),
    (2, ["--profile", "zero3", "--cp_size", "2", "--activation_policy", "attention"], 1, 2048),
    (2, ["--profile", "zero3", "--sp_size", "2", "--activation_policy", "input"], 1, 2048),
    (4, ["--profile", "zero3", "--activation_policy", "attention"], 2, 512),
]


def mpirun(ranks, *words):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
               "-x", "OMP_NUM_THREADS=1", BUILD / "bin" / "trainer", *words]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def measure(repetitions, scratch):
    folder = models.make_model(SHAPE, scratch / "model")
    models.add_tokenizer(folder)
    rows = []
    for turn in range(repetitions):
        for number, (ranks, flags, batch, tokens) in enumerate(CASES):
            rates = scratch / "rates"
            mpirun(ranks, "doctor", "--measure", rates)
            flags = ["--model_name_or_path", folder, "--max_length", tokens, "--per_device_train_batch_size", batch,
                     *([] if "--bf16" in flags else ["--bf16", "false"]), *flags]
            planned = subprocess.run([BUILD / "bin" / "trainer", "plan", "--world", str(ranks), "--gpu", rates, "--json",
                                      *map(str, flags)], check=True, capture_output=True, text=True,
                                     env={"OMP_NUM_THREADS": "1"})
            plan = json.loads(planned.stdout)
            data = models.write_input_ids(models.random_rows(SHAPE | {"tokens": tokens}, rows=8 * batch * ranks),
                                          scratch / "rows.jsonl")
            output = scratch / f"out-{turn}-{number}"
            mpirun(ranks, "train", *flags, "--dataset_name", data, "--output_dir", output, "--data_cache_dir",
                   scratch / "cache", "--max_steps", 8, "--logging_steps", 1, "--save_strategy", "no")
            lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
            taken = median([line["step_time_s"] for line in lines if "loss" in line][2:])
            rows.append({"case": number, "ranks": ranks, "flags": " ".join(map(str, flags[2:])),
                         "planned_s": plan["step_seconds"]["total"], "taken_s": taken,
                         "ratio": plan["step_seconds"]["total"] / taken, "parts_s": plan["step_seconds"]})
            print(f"{rows[-1]['ratio']:.2f} {ranks} {rows[-1]['flags']}", plan["step_seconds"], taken, flush=True)
    return [{**[row for row in rows if row["case"] == number][-1],
             "ratio": median([row["ratio"] for row in rows if row["case"] == number]), "bar": "0.75 to 1.25"}
            for number in range(len(CASES))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    repetitions = parser.parse_args().repetitions
    with tempfile.TemporaryDirectory() as scratch:
        write("plan", __doc__, " ".join(sys.argv), measure(repetitions, pathlib.Path(scratch)))


if __name__ == "__main__":
    main()

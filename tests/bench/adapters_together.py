#!/usr/bin/env python3
"""Eight adapters of rank 8 in one job (--adapters) beside one job with one of them, and beside eight jobs in turn.

    .deps/venv/bin/python tests/bench/adapters_together.py [--repetitions 3] [--steps 10 40]

A model of 4 blocks of width 512 in fp32, a row of 32 tokens an adapter, activation_policy input, one thread. Every job is
a whole process of `trainer`, from its start to its end; the sides take turns. Seconds are those of the processor, since
other work keeps the machine busy. Tensors are what the job counts at most; memory is the peak of the process.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import models
from bench_file import median, write

SHAPE = {"hidden": 512, "intermediate": 1408, "layers": 4, "heads": 8, "key_heads": 2, "vocab": 8192, "rows": 1, "tokens": 32}
ADAPTERS = 8
SETTINGS = {"bf16": False, "max_length": 32, "per_device_train_batch_size": 1, "activation_policy": "input",
            "lora_r": 8, "learning_rate": 1e-4, "logging_steps": 1, "save_strategy": "no"}
TARGETS = {"q_proj,v_proj": {"lora_target_modules": "q_proj,v_proj"}, "all-linear": {"lora_target_modules": "all-linear"}}
BARS = {"memory": 1.3, "seconds": 0.8}


def run(folder, rows, output, settings):
    numbers = models.run_process(models.trainer_command(folder, rows, output, SETTINGS | settings))
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    tensors = max(sum(value for key, value in line.items() if key.startswith("memory_")) for line in lines if "loss" in line)
    return numbers | {"tensors": tensors}


def measure(folder, rows, targets, steps, repetitions, scratch):
    list_of = json.dumps([{"name": f"a{seed}", "seed": seed} for seed in range(ADAPTERS)])
    together, eight, one = [], [], []
    for turn in range(repetitions):
        output = scratch / f"{targets}-{steps}-{turn}"
        of_turn = TARGETS[targets] | {"max_steps": steps}
        together.append(run(folder, rows, output / "together", of_turn | {"adapters": list_of}))
        alone = [run(folder, rows, output / str(seed), of_turn | {"use_peft": True, "seed": seed})
                 for seed in range(ADAPTERS)]
        eight.append(sum(job["cpu_seconds"] for job in alone))
        one.append(alone[0])

    def of(runs, key):
        return median([numbers[key] for numbers in runs])

    return {"targets": targets, "steps": steps, "adapters": ADAPTERS, "together_s": of(together, "cpu_seconds"), "eight_jobs_s": median(eight),
            "seconds": of(together, "cpu_seconds") / median(eight), "together_mb": of(together, "peak_rss") / 1e6,
            "one_job_mb": of(one, "peak_rss") / 1e6, "memory": of(together, "peak_rss") / of(one, "peak_rss"),
            "together_tensors_mb": of(together, "tensors") / 1e6, "one_job_tensors_mb": of(one, "tensors") / 1e6,
            "tensors": of(together, "tensors") / of(one, "tensors"), "bars": BARS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--steps", nargs="+", type=int, default=[10, 40])
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        folder = models.make_model(SHAPE, scratch / "model")
        models.add_tokenizer(folder)
        rows = models.write_input_ids(models.random_rows(SHAPE, rows=max(arguments.steps)), scratch / "rows.jsonl")
        for targets in TARGETS:
            for steps in arguments.steps:
                results.append(measure(folder, rows, targets, steps, arguments.repetitions, scratch))
                print(json.dumps(results[-1]), flush=True)
    write("adapters-together", __doc__, " ".join(sys.argv), results)


if __name__ == "__main__":
    main()

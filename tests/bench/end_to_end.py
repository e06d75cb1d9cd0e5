#!/usr/bin/env python3
"""A whole run beside TRL's: 200 steps of 8 x 128 tokens on one thread, from the start of the process to its end.

    .deps/venv/bin/python tests/bench/end_to_end.py [--repetitions 3]

`trainer` against a minimal script of SFTTrainer (train_trl.py): the same model (shape a of models.py), rows of token ids
and settings; preparing the data, starting and ending included, and nothing left in any cache by the run before.
"""

import argparse
import importlib.metadata
import json
import pathlib
import sys
import tempfile

import models
from bench_file import median, write

STEPS = 200
COMMON = {"max_steps": STEPS, "max_length": 128, "per_device_train_batch_size": 8, "learning_rate": 1e-3,
          "logging_steps": 10, "save_strategy": "no"}
KINDS = {
    "fp32": {"bf16": False, "gradient_checkpointing": False},
    "bf16": {"bf16": True, "gradient_checkpointing": False},
    "bf16, checkpointing": {"bf16": True, "gradient_checkpointing": True},
}
FLOOR = 0.3


def measure(repetitions):
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        folder = models.make_model(models.SHAPES["a"], scratch / "model")
        models.add_tokenizer(folder)
        rows = models.write_input_ids(models.random_rows(models.SHAPES["a"], rows=8 * STEPS), scratch / "rows.jsonl")
        for kind, settings in KINDS.items():
            settings = COMMON | settings
            ours, theirs = [], []
            for turn in range(repetitions):
                output = scratch / f"{kind}-{turn}"
                ours.append(models.run_process(models.trainer_command(folder, rows, output / "ours", settings)))
                theirs.append(models.run_process(models.trl_command(folder, rows, output / "trl", settings)))
            mine, trl = (median([run["seconds"] for run in runs]) for runs in (ours, theirs))
            mine_cpu, trl_cpu = (median([run["cpu_seconds"] for run in runs]) for runs in (ours, theirs))
            results.append({"kind": kind, "steps": STEPS, "ours_s": mine, "trl_s": trl, "ratio": mine / trl, "floor": FLOOR,
                            "ours_cpu_s": mine_cpu, "trl_cpu_s": trl_cpu,
                            "ours_peak_rss_mb": ours[-1]["peak_rss"] / 1e6, "trl_peak_rss_mb": theirs[-1]["peak_rss"] / 1e6})
            print(json.dumps(results[-1]), flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    results = measure(parser.parse_args().repetitions)
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers", "trl")}
    write("end-to-end", __doc__ + f"\n{versions}", " ".join(sys.argv), results)


if __name__ == "__main__":
    main()

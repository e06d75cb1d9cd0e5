#!/usr/bin/env python3
"""Rows that no peer trains on a machine of this size: one step each, recorded as it was.

    .deps/venv/bin/python tests/bench/very_long.py 131072 [--folder /scratch]
    .deps/venv/bin/python tests/bench/very_long.py 1048576 [--folder /scratch]

131,072 tokens: two layers of width 128 on four ranks, a ring of two and Ulysses of two. 1,048,576 tokens: one layer of width
32 on a ring of two, with what the block keeps in a file. Everything is cut (zero3), bf16, one thread to a rank. Memory is of
the process that holds most; it holds LibTorch too.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import models
from bench_file import write

COMMON = {"profile": "zero3", "bf16": True, "max_steps": 1, "per_device_train_batch_size": 1, "gradient_checkpointing": True,
          "logging_steps": 1, "save_strategy": "no", "learning_rate": 1e-4}
RUNS = {
    131072: (4, {"hidden": 128, "intermediate": 352, "layers": 2, "heads": 2, "key_heads": 2, "vocab": 1024},
             {"cp_size": 2, "sp_size": 2}),
    1048576: (2, {"hidden": 32, "intermediate": 88, "layers": 1, "heads": 1, "key_heads": 1, "vocab": 1024},
              {"cp_size": 2, "activation_offloading": True}),
}


def train(tokens, scratch):
    ranks, shape, split = RUNS[tokens]
    model = models.make_model(shape, scratch / "model")
    models.add_tokenizer(model)
    rows = models.write_input_ids(models.random_rows(shape, 1, tokens), scratch / "rows.jsonl")
    settings = COMMON | {"max_length": tokens} | split
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks,
               *models.trainer_command(model, rows, scratch / "run", settings)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if result.returncode:
        sys.exit(f"ended with {result.returncode}:\n{result.stderr[-3000:]}")
    lines = [json.loads(line) for line in (scratch / "run" / "metrics.jsonl").read_text().splitlines()]
    step = next(line for line in lines if "loss" in line)
    shown = " ".join(map(str, command)).replace(str(scratch), "FOLDER").split("bin/trainer ", 1)
    row = {"tokens": tokens, "ranks": ranks, **{key: step[key] for key in ("loss", "grad_norm", "step_time_s", "comm_wait_s")}}
    row |= {key.removesuffix("_bytes") + "_mb": step[key] / 1e6 for key in ("peak_memory_bytes", "memory_activations_bytes")}
    return row | {"settings": shown[1]}


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("tokens", type=int, choices=RUNS)
parser.add_argument("--folder")
wish = parser.parse_args()
with tempfile.TemporaryDirectory(dir=wish.folder) as scratch:
    measured = train(wish.tokens, pathlib.Path(scratch))
write(f"very-long-{wish.tokens}", __doc__ + f"\n{RUNS[wish.tokens][1]}", " ".join(sys.argv), [measured])

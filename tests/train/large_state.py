#!/usr/bin/env python3
"""A checkpoint of more than 2 GiB to a rank, with places beyond 2^32 bytes, both ways of writing. By hand: 20 GB of memory and of disk.

    TRAINER=./trainer .deps/venv/bin/python tests/train/large_state.py FOLDER

One rank trains a step of a model with 390M weights and saves 4.7 GB; two ranks go on from it, save through MPI-IO, and
one goes on from that. With a learning rate of 0 all of them hold the weights that the model came with.
"""

import json
import os
import pathlib
import shutil
import sys

import h5py
import numpy
from safetensors import safe_open

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
sys.path.insert(0, os.path.join(FOLDER, "..", "bench"))
import models  # noqa: E402
from trainer import run  # noqa: E402

SHAPE = {"hidden": 1024, "intermediate": 1024, "layers": 1, "heads": 8, "key_heads": 2, "vocab": 380_000}


def expect(result, *words):
    if result.returncode or not all(word in result.stdout + result.stderr for word in words):
        sys.exit(f"ended with {result.returncode}, expected {words}:\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")


def check(folder, model):
    expect(run("inspect", str(folder), timeout=600), "every byte is what was written")
    ranges = json.loads((folder / "manifest.json").read_text())["ranges"]
    with h5py.File(folder / "state.h5") as state, safe_open(model / "model.safetensors", "np") as weights:
        for name in weights.keys():
            stored, wanted = state["model"][name], weights.get_slice(name)
            for row in range(0, stored.shape[0], 65_536):
                end = min(row + 65_536, stored.shape[0])
                if not numpy.array_equal(stored[row:end], wanted[row:end]):
                    sys.exit(f"{folder}: {name} differs from row {row} on")
    print(f"{folder.name}: {sum(r['length'] for r in ranges) / 1e9:.2f} GB in {len(ranges)} ranges, the last at "
          f"{max(r['offset'] for r in ranges)}: as the model", flush=True)


place = pathlib.Path(sys.argv[1])
place.mkdir(parents=True)
model = models.make_model(SHAPE, place / "model")
models.add_tokenizer(model)
rows = models.write_input_ids([[1 + i, 7, 11, 13] for i in range(8)], place / "rows.jsonl")
common = ["train", "--model_name_or_path", model, "--dataset_name", rows, "--bf16", "false", "--max_length", "4",
          "--learning_rate", "0", "--lr_scheduler_type", "constant", "--save_steps", "1", "--save_total_limit", "1",
          "--output_dir", place / "run"]
for step, ranks, flags in ((1, 1, []), (2, 2, ["--profile", "zero3", "--hdf5_io", "mpio"]), (3, 1, [])):
    told = [f"resuming from {place}/run/checkpoint-{step - 1}"] if step > 1 else []
    size = ["--per_device_train_batch_size", 2 // ranks, "--max_steps", step]
    expect(run(*map(str, [*common, *size, *flags]), ranks=ranks, timeout=900, OMP_NUM_THREADS="1"), *told)
    check(place / "run" / f"checkpoint-{step}", model)
shutil.rmtree(place)

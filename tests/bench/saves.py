#!/usr/bin/env python3
"""How long training stands still for a save in a new run, and in one that has logged 100,000 lines and kept 200 checkpoints.

    tests/bench/saves.py [--repetitions 5]

Both runs are of the same toy model, one after the other in turns. The old one finds the lines in metrics.jsonl, and beside it the
folders of its checkpoints, whose manifests have 10,000 ranges each. save_stall_s counts all that a save does in the thread that
trains; it may be 1.2 times as long. peak_mib is the most that the process of rank 0 held.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import models
from bench_file import BUILD, median, write

LINES = 100_000
CHECKPOINTS = 200
RANGES = 10_000
STEPS, EVERY = 400, 40  # so that a save has ended before the next one begins
SHAPE = models.SHAPES["a"]


def make_old(output):
    """What a week leaves; lines without an attempt stay in whatever run finds them."""
    output.mkdir()
    names = ["grad_norm", "learning_rate", "entropy", "mean_token_accuracy", "epoch", *(f"metric_{i}_of_this_run" for i in range(30))]
    with open(output / "metrics.jsonl", "w") as file:
        for step in range(1, LINES + 1):
            line = {"step": step, "loss": 3.0 + 1 / step, "num_tokens": 4096 * step, **{name: 0.123456789 / step for name in names}}
            print(json.dumps(line), file=file)
    ranges = [{"dataset": f"/model/model.layers.{i % 80}.weight", "file": "state.h5", "first": i, "length": 4, "offset": 4 * i,
               "xxh3_128": f"{i:032x}"} for i in range(RANGES)]
    for step in range(LINES, LINES + CHECKPOINTS):
        folder = output / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "state.h5").write_text("four")
        about = {"format": "ringshard checkpoint", "version": 2, "step": step, "attempt": 1000, "moments": True}
        (folder / "manifest.json").write_text(json.dumps({**about, "files": {"state.h5": 4}, "frames": {}, "ranges": ranges}))
        sizes = {name: (folder / name).stat().st_size for name in ("state.h5", "manifest.json")}
        (folder / "checkpoint.json").write_text(json.dumps({**about, "files": sizes}))


def run(model, rows, output):
    command = [BUILD / "bin" / "trainer", "train", "--model_name_or_path", model, "--dataset_name", rows, "--eval_dataset_name", rows,
               "--output_dir", output, "--data_cache_dir", model.parent / "cache", "--resume_from_checkpoint", "never",
               "--max_steps", STEPS, "--max_length", SHAPE["tokens"], "--per_device_train_batch_size", "1", "--bf16", "false",
               "--logging_steps", "1", "--save_steps", EVERY, "--eval_strategy", "steps", "--eval_steps", EVERY,
               "--load_best_model_at_end"]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    subprocess.run([str(part) for part in command], check=True, capture_output=True, env=environment)
    with open(output / "metrics.jsonl") as file:
        own = [json.loads(line) for line in file.readlines()[-2 * STEPS:]]
    saves = [line for line in own if "save_stall_s" in line]
    assert len(saves) == STEPS // EVERY, len(saves)
    return ([line["save_stall_s"] for line in saves[1:]], [line["save_s"] for line in saves[1:]],  # the first makes room for the copy
            max(line["peak_memory_bytes"] for line in own if "peak_memory_bytes" in line) / 2**20)


def measure(repetitions):
    found = {"new": [], "old": []}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        model = models.make_model(SHAPE, scratch / "model")
        models.add_tokenizer(model)
        rows = models.write_input_ids(models.random_rows(SHAPE, rows=64), scratch / "rows.jsonl")
        for turn in range(repetitions):
            found["new"].append(run(model, rows, scratch / f"new-{turn}"))
            make_old(scratch / f"old-{turn}")
            found["old"].append(run(model, rows, scratch / f"old-{turn}"))
            subprocess.run(["rm", "-r", scratch / f"new-{turn}", scratch / f"old-{turn}"], check=True)
    table = [{"run": kind, "lines": LINES if kind == "old" else 0, "checkpoints": CHECKPOINTS if kind == "old" else 0,
              "stall_s": median([s for stalls, _, _ in turns for s in stalls]), "durable_s": median([s for _, saved, _ in turns for s in saved]),
              "peak_mib": median([peak for _, _, peak in turns])} for kind, turns in found.items()]
    for row in table:
        row |= {"times_new": row["stall_s"] / table[0]["stall_s"], "ceiling": 1.2}
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    write("saves", __doc__, " ".join(sys.argv), measure(parser.parse_args().repetitions))


if __name__ == "__main__":
    main()

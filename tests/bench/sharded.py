#!/usr/bin/env python3
"""Steps on two ranks beside PyTorch over gloo, eager and compiled: multi_gpu beside DDP, zero3 beside FSDP2.

    .deps/venv/bin/python tests/bench/sharded.py [--shapes a b] [--repetitions 5]

One thread per rank. The sides take turns, a run of some steps each, and the first steps of each run do not count. The
ratio is between the medians of all steps, over the faster of eager and compiled (torch.compile); memory is what the process held at most, of the rank that held more. bf16: DDP
under autocast; FSDP2 gathers bf16 and reduces fp32, as zero3 does. The first losses must agree.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import models
from bench_file import BUILD, PYTHON, median, write

TORCH_SIDE = pathlib.Path(__file__).resolve().with_name("sharded_torch.py")
RANKS = 2
WARM_UP = 3
PEERS = {"multi_gpu": "ddp", "zero3": "fsdp2"}
WAYS = ("eager", "compiled")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_torch(kind, way, folder, rows, precision, steps):
    environment = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                       WORLD_SIZE=str(RANKS), TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
    command = [PYTHON, TORCH_SIDE, folder, rows, kind, way, precision, steps]
    ranks = [subprocess.Popen(list(map(str, command)), env=dict(environment, RANK=str(rank)), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(RANKS)]
    ends = [rank.communicate() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{kind} {way} {precision} failed:\n" + "\n".join(stderr[-3000:] for _, stderr in ends))
    return [json.loads(line) for line in ends[0][0].splitlines() if line.startswith("{")]


def run_ours(profile, folder, rows, precision, shape, steps, output):
    settings = {"profile": profile, "bf16": precision == "bf16", "max_steps": steps, "max_length": shape["tokens"],
                "per_device_train_batch_size": shape["rows"] // RANKS, "gradient_checkpointing": False,
                "logging_steps": 1, "save_strategy": "no", "shuffle_dataset": False, "train_sampling_strategy": "sequential",
                "learning_rate": 2e-5, "lr_scheduler_type": "constant"}
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", RANKS,
               "-x", "OMP_NUM_THREADS=1", *models.trainer_command(folder, rows, output, settings)]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{profile} {precision} failed:\n{result.stderr[-3000:]}")
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [{"loss": line["loss"], "seconds": line["step_time_s"], "peak_rss": line["peak_memory_bytes"]}
            for line in lines if "loss" in line]


def measure(name, profile, precision, steps, repetitions, scratch):
    shape = models.SHAPES[name]
    folder = scratch / name
    if not folder.exists():
        models.make_model(shape, folder)
        models.add_tokenizer(folder)
        models.write_input_ids(models.random_rows(shape, rows=shape["rows"] * steps), scratch / f"{name}.jsonl")
    rows = scratch / f"{name}.jsonl"
    ours, theirs = [], {way: [] for way in WAYS}
    for turn in range(repetitions):
        output = scratch / f"{name}-{profile}-{precision}-{turn}"
        ours.append(run_ours(profile, folder, rows, precision, shape, steps, output))
        for way in WAYS:
            theirs[way].append(run_torch(PEERS[profile], way, folder, rows, precision, steps))
    first = [runs[0][0]["loss"] for runs in (ours, *theirs.values())]
    if any(abs(loss - first[0]) > (1e-4 if precision == "fp32" else 2e-2) * first[0] for loss in first):
        sys.exit(f"{name} {profile} {precision}: the first losses differ: {first}")

    def step_ms(runs):
        return 1e3 * median([step["seconds"] for run in runs for step in run[WARM_UP:]])

    def peak_mb(runs):
        return median([run[-1]["peak_rss"] for run in runs]) / 1e6

    best = min(WAYS, key=lambda way: step_ms(theirs[way]))
    return {"shape": name, "profile": profile, "peer": PEERS[profile], "way": best, "precision": precision, "ours_ms": step_ms(ours),
            "torch_ms": step_ms(theirs[best]), "ratio": step_ms(ours) / step_ms(theirs[best]), "floor": 0.8,
            "eager_ratio": step_ms(ours) / step_ms(theirs["eager"]),
            "ours_peak_rss_mb": peak_mb(ours), "torch_peak_rss_mb": peak_mb(theirs[best])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["a", "b"], choices=models.SHAPES)
    parser.add_argument("--profiles", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.shapes:
            for profile in arguments.profiles:
                for precision in arguments.precisions:
                    steps = 40 if name == "a" else 10
                    results.append(measure(name, profile, precision, steps, arguments.repetitions, pathlib.Path(scratch)))
                    print(json.dumps(results[-1]), flush=True)
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers")}
    write("-".join(["sharded", *arguments.shapes]), __doc__ + f"\n{versions}\n{models.SHAPES}", " ".join(sys.argv), results)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A whole training step (forward, backward, clip, AdamW) beside PyTorch with transformers' model, eager and compiled.

    .deps/venv/bin/python tests/bench/step.py [--shapes t a b c] [--repetitions 9] [--threads 1]

Every side is a process of its own that takes one step on command, so all are warm, and they take turns. The ratio is
our median over that of the best of PyTorch's ways: eager with AdamW fused or foreach, or the model compiled by torch.compile;
bf16 by autocast or by .to(bf16). `eager_ratio` is over the best of the eager ways.
The first losses must agree: the sides compute the same thing.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import models
from bench_file import BUILD, PYTHON, median, write

TORCH_SIDE = pathlib.Path(__file__).resolve().with_name("step_torch.py")
# What the ratio may be at most.
FLOORS = {
    ("t", "fp32", False): 0.30, ("t", "bf16", False): 0.30, ("a", "fp32", False): 0.52, ("a", "bf16", False): 0.30,
    ("b", "fp32", False): 0.76, ("b", "bf16", False): 0.60, ("c", "fp32", False): 0.90, ("c", "bf16", False): 0.62,
    ("b", "bf16", True): 0.60, ("c", "bf16", True): 0.70,
}


class Side:
    def __init__(self, name, command, threads):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TOKENIZERS_PARALLELISM="false")
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        self.answers = []

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended: {self.process.args}")
        return json.loads(line)

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        self.answers.append(self.read())

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def median(self, what, warm_up):
        return median([answer[what] for answer in self.answers[warm_up:]])


def our_command(folder, rows, precision, checkpointing):
    return [BUILD / "bin" / "bench_step", folder, rows, precision, "attention" if checkpointing else "all"]


def torch_command(folder, rows, kind, optimizer, checkpointing):
    return [PYTHON, TORCH_SIDE, folder, rows, kind, optimizer, "yes" if checkpointing else "no"]


def torch_commands(folder, rows, precision, checkpointing):
    kinds = ["fp32"] if precision == "fp32" else ["autocast", "bf16"]
    eager = {f"{kind} {optimizer}": torch_command(folder, rows, kind, optimizer, checkpointing)
             for kind in kinds for optimizer in ("fused", "foreach")}
    return eager | {f"{kind} compiled": torch_command(folder, rows, kind, "fused", checkpointing) + ["compiled"] for kind in kinds}


def measure(name, folder, rows, precision, checkpointing, arguments):
    commands = {"ours": our_command(folder, rows, precision, checkpointing)}
    if not arguments.only_ours:
        commands.update(torch_commands(folder, rows, precision, checkpointing))
    sides = [Side(side, command, arguments.threads) for side, command in commands.items()]
    for side in sides:
        side.read()
    warm_up = 2
    # Short steps are repeated more often: they take little time and scatter more.
    per_turn = 10 if name in ("t", "a") else 1
    for turn in range(arguments.repetitions + warm_up):
        for side in sides:
            for _ in range(per_turn if turn >= warm_up else 1):
                side.step()
    for side in sides:
        side.end()
    first = [side.answers[0]["loss"] for side in sides]
    if any(abs(loss - first[0]) > (1e-4 if precision == "fp32" else 2e-2) * first[0] for loss in first):
        sys.exit(f"{name} {precision}: the first losses differ: {first}")
    row = {"shape": name, "precision": precision, "checkpointing": checkpointing, "threads": arguments.threads,
           "ours_ms": sides[0].median("ms", warm_up), "ours_cpu_ms": sides[0].median("cpu_ms", warm_up)}
    if arguments.only_ours:
        return row
    best = min(sides[1:], key=lambda side: side.median("ms", warm_up))
    row.update({"torch_ms": best.median("ms", warm_up), "torch_cpu_ms": best.median("cpu_ms", warm_up), "torch_way": best.name,
                "ratio": row["ours_ms"] / best.median("ms", warm_up), "floor": None,
                "eager_ratio": row["ours_ms"] / min(side.median("ms", warm_up) for side in sides[1:] if "compiled" not in side.name),
                "ours_peak_rss_mb": sides[0].answers[-1]["peak_rss"] / 1e6, "torch_peak_rss_mb": best.answers[-1]["peak_rss"] / 1e6,
                "others_ms": {side.name: round(side.median("ms", warm_up), 2) for side in sides[1:] if side is not best}})
    if arguments.threads == 1:
        row["floor"] = FLOORS.get((name, precision, checkpointing))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["t", "a", "b", "c"], choices=models.SHAPES)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--checkpointing", nargs="+", default=["no", "yes"], choices=["no", "yes"])
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only_ours", action="store_true", help="without PyTorch and without a result file")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.shapes:
            shape = models.SHAPES[name]
            folder = models.make_model(shape, pathlib.Path(scratch) / name)
            rows = models.write_rows(models.random_rows(shape), pathlib.Path(scratch) / f"{name}.rows")
            for precision in arguments.precisions:
                for checkpointing in arguments.checkpointing:
                    results.append(measure(name, folder, rows, precision, checkpointing == "yes", arguments))
                    print(json.dumps(results[-1]), flush=True)
    if arguments.only_ours:
        return
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers")}
    suffix = "" if arguments.threads == 1 else f"-{arguments.threads}-threads"
    write("-".join(["step", *arguments.shapes]) + suffix, __doc__ + f"\n{versions}\n{models.SHAPES}", " ".join(sys.argv), results)


if __name__ == "__main__":
    main()

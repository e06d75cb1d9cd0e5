#!/usr/bin/env python3
"""Steps and memory of DPO beside TRL's DPOTrainer: whole runs that take turns.

    .deps/venv/bin/python tests/bench/preferences.py [--shapes b] [--steps 6] [--repetitions 3]

A row of the shape is a prompt of half its tokens and an answer of the other half, and a pair has two of them. TRL holds its
reference model in memory, its default, or computes the reference before (precompute_ref_log_probs), as we do; in bf16 its
model is loaded in bf16. The time of a step is the median of a run but for its first two steps. The first losses are ln 2.
"""

import argparse
import importlib.metadata
import json
import pathlib
import random
import shutil
import statistics
import string
import sys
import tempfile

import models
from bench_file import PYTHON, ROOT, write
from tokenizers import Tokenizer

TRL_SIDE = pathlib.Path(__file__).resolve().with_name("preferences_trl.py")
TOKENIZER = ROOT / "tests" / "parity" / "data" / "models" / "qwen2-tiny"
SKIPPED = 2


def write_pairs(shape, count, file):
    """Words of one token each."""
    source = random.Random(1)
    tokenizer = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
    words = [" " + letter for letter in string.ascii_letters if len(tokenizer.encode(" " + letter).ids) == 1]

    def text(tokens):
        return "".join(source.choice(words) for _ in range(tokens))

    half = shape["tokens"] // 2
    pairs = [{"prompt": text(half), "chosen": text(half - 1), "rejected": text(half - 1)} for _ in range(count)]
    lengths = {len(tokenizer.encode(pair["prompt"] + pair["chosen"]).ids) for pair in pairs}
    if lengths != {shape["tokens"] - 1}:
        sys.exit(f"answers with prompts have {lengths} tokens")
    file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return file


def numbers_of_ours(output, process):
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    return {"step_ms": 1e3 * statistics.median(line["step_time_s"] for line in steps[SKIPPED:]), "loss": steps[0]["loss"],
            "peak_mb": process["peak_rss"] / 1e6}


def run_side(side, folder, pairs, settings, scratch, threads):
    output = scratch / f"out-{side}"
    if side == "ours":
        command = models.trainer_command(folder, pairs, output, settings | {"output_dir": str(output), "resume_from_checkpoint": False})
        command.insert(1, "dpo")
        return numbers_of_ours(output, models.run_process(command, threads))
    answer = scratch / f"{side}.json"
    mine = settings | {"precompute_ref_log_probs": side == "trl_before", "output_dir": str(output)}
    process = models.run_process([PYTHON, TRL_SIDE, folder, pairs, json.dumps(mine), str(answer)], threads)
    found = json.loads(answer.read_text())
    return {"step_ms": 1e3 * statistics.median(found["seconds"][SKIPPED:]), "loss": found["losses"][0],
            "peak_mb": process["peak_rss"] / 1e6}


def measure(name, precision, scratch, arguments):
    shape = models.SHAPES[name]
    folder = scratch / name
    if not folder.exists():
        models.make_model(shape, folder)
        for name_of_file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(TOKENIZER / name_of_file, folder)
    pairs = write_pairs(shape, shape["rows"] * arguments.steps, scratch / f"{name}.jsonl")
    settings = {"per_device_train_batch_size": shape["rows"], "max_length": shape["tokens"], "max_steps": arguments.steps,
                "logging_steps": 1, "bf16": precision == "bf16", "learning_rate": 1e-5, "save_strategy": "no",
                "gradient_checkpointing": arguments.checkpointing, "lr_scheduler_type": "constant"}
    sides = {side: [] for side in ("ours", "trl", "trl_before")}
    for _ in range(arguments.repetitions):
        for side, numbers in sides.items():
            numbers.append(run_side(side, folder, pairs, settings, scratch, arguments.threads))
    row = {"shape": name, "precision": precision, "checkpointing": arguments.checkpointing, "threads": arguments.threads}
    for side, numbers in sides.items():
        row |= {f"{side}_ms": statistics.median(one["step_ms"] for one in numbers),
                f"{side}_mb": statistics.median(one["peak_mb"] for one in numbers)}
        if abs(numbers[0]["loss"] - 0.6931) > 2e-2:
            sys.exit(f"{side}: the first loss is {numbers[0]['loss']}")
    return row | {"step": row["ours_ms"] / row["trl_ms"], "step_before": row["ours_ms"] / row["trl_before_ms"],
                  "memory": row["ours_mb"] / row["trl_mb"], "memory_before": row["ours_mb"] / row["trl_before_mb"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["b"], choices=models.SHAPES)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no_result", action="store_true", help="without a result file")
    arguments = parser.parse_args()
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers", "trl")}
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.shapes:
            for precision in arguments.precisions:
                results.append(measure(name, precision, pathlib.Path(scratch), arguments))
                print(json.dumps(results[-1]), flush=True)
    if not arguments.no_result:
        write("-".join(["preferences", *arguments.shapes]), __doc__ + f"\n{versions}\n{models.SHAPES}", " ".join(sys.argv), results)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Steps, memory, saving and loading of a LoRA adapter beside TRL's SFTTrainer with PEFT, and beside our full step.

    .deps/venv/bin/python tests/bench/adapters.py [--shapes a b] [--repetitions 9] [--threads 1]

Rank 16 on all linear layers, alpha 32, dropout 0.05 (TRL's default) or 0. Every side is a process of its own that takes
one step on command, so all are warm, and they take turns. TRL is as it is shipped; in bf16 its model is loaded in bf16,
which takes less memory and time than fp32 weights under autocast. Ratios are between medians; memory is what the process
held at most before it saves and loads. Saving is export_weights() beside save_pretrained(), loading puts an adapter of a
folder beside a model that is loaded (PeftModel.from_pretrained()). The first losses must agree.
"""

import argparse
import importlib.metadata
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import models
from bench_file import BUILD, PYTHON, write
from step import Side

TRL_SIDE = pathlib.Path(__file__).resolve().with_name("adapters_trl.py")
WARM_UP = 2
LORA = {"use_peft": True, "lora_r": 16, "lora_alpha": 32, "lora_target_modules": "all-linear"}
BARS = {"step": 0.5, "memory": 0.5, "save": 0.2, "load": 0.2, "full_step": 0.6}


def make_adapter(folder, rows, dropout, output):
    settings = LORA | {"lora_dropout": dropout, "max_steps": 1, "learning_rate": 0.0, "save_strategy": "no", "bf16": False}
    subprocess.run(list(map(str, models.trainer_command(folder, rows, output, settings))), check=True, capture_output=True)
    return output


class CommandedSide(Side):
    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.answers.append(self.read())


def trl_command(folder, adapter, rows, shape, precision, checkpointing, dropout, output):
    settings = {"dtype": "float32" if precision == "fp32" else "bfloat16", "lora_dropout": dropout, "output_dir": str(output),
                "bf16": precision == "bf16", "gradient_checkpointing": checkpointing, "max_length": shape["tokens"],
                "per_device_train_batch_size": shape["rows"], "learning_rate": 2e-5, "lr_scheduler_type": "constant"}
    return [PYTHON, TRL_SIDE, folder, adapter, rows, json.dumps(settings)]


def measure(name, precision, checkpointing, dropout, scratch, arguments):
    shape = models.SHAPES[name]
    folder, rows, ids = scratch / name, scratch / f"{name}.rows", scratch / f"{name}.jsonl"
    if not folder.exists():
        models.make_model(shape, folder)
        models.add_tokenizer(folder)
        models.write_rows(models.random_rows(shape), rows)
        models.write_input_ids(models.random_rows(shape), ids)
    adapter = scratch / f"{name}-{dropout}"
    if not adapter.exists():
        make_adapter(folder, ids, dropout, adapter)
    policy = "attention" if checkpointing else "all"
    bench_step = [BUILD / "bin" / "bench_step", folder, rows, precision, policy]
    commands = {"ours": [*bench_step, adapter],
                "trl": trl_command(folder, adapter, ids, shape, precision, checkpointing, dropout, scratch / "trl"),
                "full": bench_step}
    sides = {side: CommandedSide(side, command, arguments.threads) for side, command in commands.items()}
    for side in sides.values():
        side.read()
    for _ in range(arguments.repetitions + WARM_UP):
        for side in sides.values():
            for _ in range(10 if name in ("t", "a") else 1):
                side.ask("step")
    warm_up = WARM_UP * (10 if name in ("t", "a") else 1)
    numbers = {side: {"ms": commanded.median("ms", warm_up), "cpu_ms": commanded.median("cpu_ms", warm_up),
                      "peak": commanded.answers[-1]["peak_rss"] / 1e6, "loss": commanded.answers[0]["loss"]}
               for side, commanded in sides.items()}
    losses = [of_side["loss"] for of_side in numbers.values()]
    if any(abs(loss - losses[0]) > (1e-4 if precision == "fp32" else 2e-2) * losses[0] for loss in losses):
        sys.exit(f"{name} {precision}: the first losses differ: {losses}")
    for word in ("save", "load"):
        for side in ("ours", "trl"):
            sides[side].answers.clear()
        for turn in range(arguments.repetitions):
            for side in ("ours", "trl"):
                saved = scratch / f"saved-{side}"
                shutil.rmtree(saved, ignore_errors=True)
                sides[side].ask(f"{word} {saved}" if word == "save" else word)
        for side in ("ours", "trl"):
            numbers[side][word] = sides[side].median("ms", 1)
    for side in sides.values():
        side.end()
    ours, trl, full = (numbers[side] for side in ("ours", "trl", "full"))
    return {"shape": name, "precision": precision, "checkpointing": checkpointing, "dropout": dropout, "threads": arguments.threads,
            "ours_ms": ours["ms"], "trl_ms": trl["ms"], "full_ms": full["ms"], "step": ours["ms"] / trl["ms"],
            "full_step": ours["ms"] / full["ms"], "ours_cpu_ms": ours["cpu_ms"], "trl_cpu_ms": trl["cpu_ms"],
            "full_cpu_ms": full["cpu_ms"], "step_cpu": ours["cpu_ms"] / trl["cpu_ms"],
            "full_step_cpu": ours["cpu_ms"] / full["cpu_ms"], "ours_mb": ours["peak"], "trl_mb": trl["peak"], "full_mb": full["peak"],
            "memory": ours["peak"] / trl["peak"], "ours_save_ms": ours["save"], "trl_save_ms": trl["save"],
            "save": ours["save"] / trl["save"], "ours_load_ms": ours["load"], "trl_load_ms": trl["load"],
            "load": ours["load"] / trl["load"], "bars": BARS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["a", "b"], choices=models.SHAPES)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--checkpointing", nargs="+", default=["no", "yes"], choices=["no", "yes"])
    parser.add_argument("--dropouts", nargs="+", type=float, default=[0.05, 0.0])
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no_result", action="store_true", help="without a result file")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.shapes:
            for precision in arguments.precisions:
                for checkpointing in arguments.checkpointing:
                    for dropout in arguments.dropouts:
                        results.append(measure(name, precision, checkpointing == "yes", dropout, pathlib.Path(scratch), arguments))
                        print(json.dumps(results[-1]), flush=True)
    if arguments.no_result:
        return
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers", "trl", "peft")}
    write("-".join(["adapters", *arguments.shapes]), __doc__ + f"\n{versions}\n{models.SHAPES}", " ".join(sys.argv), results)


if __name__ == "__main__":
    main()

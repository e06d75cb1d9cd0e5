#!/usr/bin/env python3
"""How long a row may be, and how long a step over it takes, on 1, 2, 4 and 8 ranks that share it.

    scripts/long_rows.py OUT --model_name_or_path MODEL --budget 60GB [--ranks 1 2 4 8] [--split cp|sp]
                         [--launcher "srun --mpi=pmix -n {ranks}"] [-- more settings of the trainer]

Every rank may hold `budget` of tensors (the kinds of memory in metrics.jsonl together, of the rank that holds most). Two
short rows show what a token costs; from there the longest row is found, and trained. OUT gets long_rows.json and
long_rows.svg. Without a model, a small random one is made: that shows the shape of the curve on any machine.
"""

import argparse
import datetime
import json
import pathlib
import random
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAINER = ROOT / "trainer"
STEPS = 2  # the first one warms up
UNITS = {"KB": 1e3, "MB": 1e6, "GB": 1e9}


def read_bytes(text):
    return float(text[:-2]) * UNITS[text[-2:].upper()] if text[-2:].upper() in UNITS else float(text)


def read_wish():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--model_name_or_path", type=pathlib.Path)
    parser.add_argument("--budget", type=read_bytes, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--split", choices=["cp", "sp"], default="cp")
    parser.add_argument("--launcher", default="mpirun --oversubscribe --bind-to none -n {ranks}")
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    wish = parser.parse_args(own)
    wish.settings = sys.argv[2 + len(own):]
    return wish


def make_model(folder):
    config = json.loads((ROOT / "configs/examples/tiny/config.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wanted.json").write_text(json.dumps(config | {"max_position_embeddings": 1 << 24}))
    subprocess.run([TRAINER, "init", "--config_json", folder / "wanted.json", "--output_dir", folder / "model"], check=True)
    return folder / "model"


class Bench:
    """One model, at any length, on any number of ranks."""

    def __init__(self, wish, model):
        self.wish, self.model = wish, model
        self.vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]

    def train(self, ranks, length):
        """Bytes of the rank that holds most, and seconds of a step."""
        name = f"{ranks}-ranks-{length}"
        rows, output = self.wish.out / f"{name}.jsonl", self.wish.out / name
        draw = random.Random(length)
        row = json.dumps({"input_ids": [draw.randrange(self.vocabulary) for _ in range(length)]}) + "\n"
        rows.write_text(row * STEPS)
        settings = {"profile": "zero3", f"{self.wish.split}_size": ranks, "model_name_or_path": self.model, "dataset_name": rows,
                    "output_dir": output, "data_cache_dir": self.wish.out / "data", "max_length": length, "max_steps": STEPS,
                    "per_device_train_batch_size": 1, "gradient_checkpointing": "true", "logging_steps": 1, "save_strategy": "no"}
        command = [*shlex.split(self.wish.launcher.format(ranks=ranks)), TRAINER]
        command += [word for name, value in settings.items() for word in (f"--{name}", value)]
        result = subprocess.run(list(map(str, command + self.wish.settings)), capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"{name} ended with {result.returncode}:\n{result.stderr[-3000:]}")
        lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        logged = [line for line in lines if "loss" in line]
        memory = max(sum(value for key, value in line.items() if key.startswith("memory_")) for line in logged)
        return memory, logged[-1]["step_time_s"]

    def longest(self, ranks):
        """The longest row within the budget, in steps of 64 tokens to a half-chunk of a rank."""
        grain = 128 * ranks
        runs = {length: self.train(ranks, length) for length in (8 * grain, 16 * grain)}
        while True:
            (before, (memory_before, _)), (last, (memory_last, _)) = list(runs.items())[-2:]
            per_token = (memory_last - memory_before) / (last - before)
            if per_token <= 0:
                sys.exit(f"{before} and {last} tokens take the same memory on {ranks} ranks: what grows with the row is not seen")
            room = self.wish.budget - memory_last
            length = max(grain, (last + int(room / per_token)) // grain * grain)
            if length in runs or 0 <= room < 0.02 * self.wish.budget:
                break
            runs[length] = self.train(ranks, length)
        fitting = [length for length, (memory, _) in runs.items() if memory <= self.wish.budget]
        if not fitting:
            sys.exit(f"the budget holds no row of {grain} tokens on {ranks} ranks: {memory_last / 1e6:.0f} MB at {last}")
        longest = max(fitting)
        memory, seconds = runs[longest]
        return {"ranks": ranks, "longest_row": longest, "memory_mb": memory / 1e6, "bytes_per_token": per_token,
                "step_s": seconds, "tokens_per_s": longest / seconds}


def draw(table, path):
    """Two columns of bars: the longest row, and seconds per step over it."""
    width, height, gap, bottom = 420, 220, 40, 200
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * width}" height="{height + 40}" font-family="sans-serif" '
             'font-size="12"><rect width="100%" height="100%" fill="white"/>']
    for column, (key, title) in enumerate((("longest_row", "longest row, tokens"), ("step_s", "seconds per step"))):
        left, most = column * width + gap, max(line[key] for line in table)
        bar = (width - 2 * gap) / len(table)
        parts.append(f'<text x="{left}" y="20" font-weight="bold">{title}</text>')
        for i, line in enumerate(table):
            tall, x = 150 * line[key] / most, left + i * bar
            shown = f"{line[key]:,}" if isinstance(line[key], int) else f"{line[key]:.3g}"
            parts.append(f'<rect x="{x:.0f}" y="{bottom - tall:.1f}" width="{bar * 0.7:.0f}" height="{tall:.1f}" fill="#3b6ea5"/>'
                         f'<text x="{x:.0f}" y="{bottom - tall - 5:.1f}">{shown}</text>'
                         f'<text x="{x:.0f}" y="{bottom + 18}">{line["ranks"]} rank{"s" * (line["ranks"] > 1)}</text>')
    path.write_text("\n".join([*parts, "</svg>\n"]))


def main():
    wish = read_wish()
    wish.out.mkdir(parents=True)
    bench = Bench(wish, wish.model_name_or_path or make_model(wish.out / "made"))
    table = []
    print("ranks  longest row  to one rank  memory MB  bytes/token  s/step  tokens/s")
    for ranks in wish.ranks:
        line = bench.longest(ranks)
        line["to_first"] = line["longest_row"] / (table[0] if table else line)["longest_row"]
        table.append(line)
        print(f"{ranks:5}  {line['longest_row']:11,}  {line['to_first']:11.2f}  {line['memory_mb']:9.1f}  "
              f"{line['bytes_per_token']:11,.0f}  {line['step_s']:6.2f}  {line['tokens_per_s']:8,.0f}", flush=True)
    (wish.out / "long_rows.json").write_text(json.dumps(
        {"what": "the longest row under a budget of memory to a rank", "date": datetime.date.today().isoformat(),
         "budget": wish.budget, "split": wish.split, "settings": wish.settings, "rows": table}, indent=1) + "\n")
    draw(table, wish.out / "long_rows.svg")
    print(f"wrote {wish.out / 'long_rows.json'} and long_rows.svg")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Draws combinations of architecture, settings, layouts, adapters and kills, and compares each run with one rank that nobody disturbs.

    TRAINER=./trainer tests/train/explorer.py [--cases 4] [--seed N] [--first N] [--result FILE.json]

A case is a tiny model of one of the families of tests/parity/data/families, settings that shape the curve, and one to three starts.
Each start has a layout of its own (ranks, profile, ring, Ulysses, expert ranks, accumulation, offloading, saved activations) and all
but the last a fault that kills one rank or all. Losses, gradient norms, rates, counts, evaluations and the final tensors must be those
of one rank within the order of sums. Layouts and settings that the program refuses (78) at a first start are drawn anew and counted.
Without --seed the day is the seed, so each night draws other cases; --seed N --first K --cases 1 repeats case K of a night.
"""

import argparse
import array
import collections
import datetime
import json
import math
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "..", "cli"), os.path.join(FOLDER, "..", "parity")]
from family_models import write_model  # noqa: E402
from trainer import read_json, read_metrics, run  # noqa: E402

FAMILIES = os.path.join(FOLDER, "..", "parity", "data", "families")
ROWS_A_STEP, STEPS, LONGEST = 4, 8, 40
ROWS, ROWS_TO_PACK = 20, 120  # an epoch is five steps; with packing longer than the run, since several data ranks fill up its last step
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL, 77)
COMMON = ["--bf16", "false", "--max_length", "48", "--max_steps", str(STEPS), "--logging_steps", "1", "--save_steps", "2",
          "--eval_strategy", "steps", "--eval_steps", "4", "--hang_timeout_s", "60",
          "--adam_epsilon", "1e-5"]  # gradients that are rounding alone make no steps of the whole rate
FAULTS = ["start:1", "load:1", "claim:1", "export:1", "evaluate:1", "save:copy:1", "save:copy:2", "save:begin:2", "save:layout:2",
          "save:write:9", "save:flush:2", "save:written:2", "save:describe:2", "save:name:2", "save:named:1", "save:named:2",
          "save:latest:1", "save:latest:2", "step:3", "step:5", "step:8", "compute:4", "compute:6"]
EXACT = ("step", "epoch", "learning_rate", "num_tokens")
# Relative and absolute differences that the order of sums leaves: of a line, of the length of the difference of a tensor.
NEAR = {"loss": (1e-5, 1e-6), "grad_norm": (2e-4, 1e-6), "entropy": (2e-5, 1e-6), "eval_loss": (1e-5, 1e-6)}
NEAR_TENSORS = 1e-3


class Refused(Exception):
    """The program ended with 78: this combination is not served."""


class Different(Exception):
    """A start failed, or the run is not the one of the undisturbed rank."""


def draw_settings(dice):
    """The settings that shape the curve, the same at every start."""
    flags = ["--learning_rate", dice.choice(["2e-3", "1e-2"]), "--lr_scheduler_type", dice.choice(["linear", "cosine", "constant"]),
             "--max_grad_norm", dice.choice(["0", "0.1", "1"]), "--weight_decay", dice.choice(["0", "0.1"]),
             "--warmup_steps", dice.choice(["0", "3"]), "--seed", str(dice.randrange(1000))]
    flags += dice.choice([[], [], ["--optim", "lion_32bit", "--learning_rate", "1e-4"]])
    flags += dice.choice([[], [], ["--label_smoothing_factor", "0.1"], ["--loss_type", "dft"]])
    flags += dice.choice([[], ["--packing"], ["--packing", "--packing_strategy", "wrapped"], ["--padding_free", "--max_length", "null"]])
    flags += dice.choice([[], ["--data_seed", "7"], ["--train_sampling_strategy", "sequential"]])
    return flags + dice.choice([lambda _: [], draw_adapter, draw_adapter, draw_frozen])(dice)


def draw_adapter(dice):
    flags = ["--use_peft", "--lora_r", str(dice.choice([1, 2, 4, 8])), "--lora_alpha", str(dice.choice([4, 16])),
             "--lora_dropout", dice.choice(["0", "0.1"]),
             "--lora_target_modules", dice.choice(["all-linear", "q_proj,v_proj", "down_proj"])]
    for own in (["--use_dora"], ["--use_rslora"], ["--load_in_4bit"], ["--loraplus_lr_ratio", "4"], ["--lora_bias", "true"],
                ["--bias", "lora_only"], ["--init_lora_weights", "gaussian"], ["--init_lora_weights", "pissa"],
                ["--lora_modules_to_save", "embed_tokens"]):
        if dice.random() < 0.15:
            flags += own
    if dice.random() < 0.25:  # two in one job
        names = [{"name": "one", "lora_r": 2}, {"name": "two", "lora_r": 4, "seed": 3, "learning_rate": 1e-3, "max_steps": 6}]
        flags = [flag for flag in flags if flag != "--use_peft"] + ["--adapters", json.dumps(names)]
    return flags


def draw_frozen(dice):
    return dice.choice([["--freeze", "embed_tokens"], ["--freeze", r"layers\.0\."], ["--train_only", "mlp"], ["--train_only", "norm"]])


def draw_layout(dice, folder, micro_batches, has_experts):
    """Ranks (None: without mpirun), and flags that may differ from start to start. The loss that balances experts is one of a
    micro-batch (docs/experts.md): with it every layout has as many `micro_batches` a step as the first, else None."""
    ranks = dice.choice([1, 2, 2, 3, 4, 4])
    cp = dice.choice([n for n in (1, 1, 2, 3, 4) if ranks % n == 0])
    sp = dice.choice([n for n in (1, 1, 2) if ranks // cp % n == 0])
    data = ranks // (cp * sp)
    accumulations = [n for n in (1, 2, 4) if ROWS_A_STEP % (data * n) == 0 and micro_batches in (None, n)]
    if not accumulations:
        return draw_layout(dice, folder, micro_batches, has_experts)
    accumulation = dice.choice(accumulations)
    flags = ["--per_device_train_batch_size", str(ROWS_A_STEP // data // accumulation), "--gradient_accumulation_steps", str(accumulation)]
    flags += ["--per_device_eval_batch_size", str(dice.choice([1, 2, 5]))]
    if ranks > 1:
        profile = dice.choice(["multi_gpu", "zero1", "zero2", "zero3", "fsdp2"])
        flags += ["--profile", profile, "--cp_size", str(cp), "--sp_size", str(sp)]
        if profile == "fsdp2":
            flags += dice.choice([[], ["--fsdp_reshard_after_forward", "false"]])
        if profile != "multi_gpu" and data == 4:
            flags += dice.choice([[], ["--dp_replicate_size", "2"]])
        if cp > 1:
            flags += ["--cp_comm_strategy", dice.choice(["ring", "allgather"])]
        if has_experts:
            flags += dice.choice([[], ["--ep_size", str(ranks // cp // sp if dice.random() < 0.5 else ranks)]])
        flags += dice.choice([[], ["--fsdp_state_dict_type", "SHARDED_STATE_DICT"], ["--hdf5_io", "mpio"]])
    policy = dice.choice(["everything", "all", "all_but_gate_up", "input", "all:1,attention"])
    flags += dice.choice([[], [], ["--activation_policy", policy],
                          ["--activation_offloading"], ["--gradient_checkpointing", "false"]])
    flags += dice.choice([[], [], ["--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", folder]])
    return None if ranks == 1 else ranks, flags


def draw_fault(dice, ranks):
    return dice.choice(FAULTS) + ":kill" + (f"@{dice.randrange(ranks)}" if ranks and dice.random() < 0.5 else "")


def write_rows(dice, path, vocabulary, count):
    """Rows of ids with labels for some of them, and weights in some files."""
    weighted = dice.random() < 0.25
    with open(path, "w") as file:
        for _ in range(count):
            ids = [dice.randrange(vocabulary) for _ in range(dice.randrange(3, LONGEST))]
            row = {"input_ids": ids, "labels": [token if dice.random() < 0.8 else -100 for token in ids[:-1]] + ids[-1:]}
            if weighted:
                row["weights"] = [dice.choice([0.5, 1.0, 2.0]) for _ in ids]
            file.write(json.dumps(row) + "\n")


def read_tensors(path):
    """name -> numbers of a safetensors file in fp32."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        content = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = array.array("f", content[begin:end]) if entry["dtype"] == "F32" else content[begin:end]
    return tensors


def length(numbers):
    return math.sqrt(sum(x * x for x in numbers))


class Case:
    def __init__(self, folder, seed, number, counts, refusals, spoiled=False):
        self.dice, self.spoiled = random.Random(f"{seed}:{number}"), spoiled
        self.counts, self.refusals = counts, refusals
        self.folder = os.path.join(folder, f"case-{number}")
        self.words = []
        os.makedirs(self.folder)
        self.family = self.dice.choice(sorted(os.listdir(FAMILIES)))
        golden = read_json(FAMILIES, self.family)
        write_model(golden, self.path("model"))
        self.vocabulary = golden["config"].get("text_config", golden["config"])["vocab_size"]
        self.micro_batches, self.has_experts = None, any("expert" in name for name in golden["tensors"])

    def path(self, *name):
        return os.path.join(self.folder, *name)

    def start(self, output, ranks, flags, **variables):
        words = ["train", "--model_name_or_path", self.path("model"), "--dataset_name", self.path("rows.jsonl"), "--eval_dataset_name",
                 self.path("rows.jsonl"), *COMMON, *self.settings, *flags, "--output_dir", self.path(output)]
        begun = os.path.isdir(self.path(output))
        self.words.append(" ".join([f"{ranks or 1} ranks", *(f"{k}={v}" for k, v in variables.items()), shlex.join(words)]))
        try:
            result = run(*words, ranks=ranks, timeout=600, **variables)
        except subprocess.TimeoutExpired as late:
            raise Different(f"no end after {late.timeout} s") from late
        if result.returncode == 78 and "other settings" not in result.stderr and not (begun and self.spoiled):
            raise Refused(result.stderr)
        self.counts["starts from a checkpoint"] += "resuming from" in result.stderr
        if result.returncode not in (0, *(KILLED if variables else ())):
            raise Different(f"ended with {result.returncode}: {result.stderr[-2000:]}")
        return result.returncode

    def note(self, kind, refused):
        self.words.pop()
        self.counts[kind] += 1
        message = next(line for line in str(refused).splitlines() if line.startswith("trainer: "))
        self.refusals[message.removeprefix("trainer: ").replace(self.folder, "")[:120]] += 1

    def drawn(self, output, faulty):
        """One start in a layout that the program serves; returns its exit code."""
        while True:
            ranks, flags = draw_layout(self.dice, self.folder, self.micro_batches, self.has_experts)
            fault = {"RINGSHARD_FAULT": draw_fault(self.dice, ranks)} if faulty else {}
            try:
                return self.start(output, ranks, flags, **fault)
            except Refused as refused:
                self.note("layouts refused", refused)

    def undisturbed(self):
        while True:
            self.settings = draw_settings(self.dice)
            write_rows(self.dice, self.path("rows.jsonl"), self.vocabulary, ROWS_TO_PACK if "--packing" in self.settings else ROWS)
            accumulation = self.dice.choice([1, 2, 4])
            flags = ["--per_device_train_batch_size", str(ROWS_A_STEP // accumulation), "--gradient_accumulation_steps", str(accumulation)]
            try:
                self.start("alone", None, flags)
            except Refused as refused:
                self.note("settings refused", refused)
                continue
            folder = "one" if os.path.isdir(self.path("alone", "one")) else ""
            self.micro_batches = accumulation if "aux_loss" in read_metrics(self.path("alone", folder))[0] else None
            return

    def run(self):
        self.undisturbed()
        if self.spoiled:
            self.start("drawn", None, ["--per_device_train_batch_size", "4"],
                       RINGSHARD_FAULT="save:copy:2:kill")
            self.start("drawn", None, ["--per_device_train_batch_size", "4", "--adam_beta1", "0.8", "--allow_changed", "true"])
            return self.compare()
        for _ in range(self.dice.choice([0, 1, 1, 2, 2])):
            self.counts["kills asked for"] += 1
            if self.drawn("drawn", True) == 0:
                return self.compare()
            self.counts["kills that fired"] += 1
        self.drawn("drawn", False)
        return self.compare()

    def compare(self):
        """Raises Different; returns the worst relative difference of a loss."""
        worst, folders = 0.0, [""] + [name for name in ("one", "two") if os.path.isdir(self.path("alone", name))]
        for folder in folders:
            ours, theirs = ([line for line in read_metrics(self.path(output, folder)) if "loss" in line or "eval_loss" in line]
                            for output in ("drawn", "alone"))
            if [(a["step"], "loss" in a) for a in ours] != [(b["step"], "loss" in b) for b in theirs]:
                raise Different(f"{folder} lines of other steps: {[line['step'] for line in ours]}")
            for a, b in zip(ours, theirs):
                # Several data ranks fill the last step of an epoch up, with rows of other steps: of packed rows it is not full.
                for key in EXACT if "--packing" not in self.settings else ("step", "learning_rate", "num_tokens"):
                    if a.get(key) != b.get(key) and not (key == "learning_rate" and math.isclose(a[key], b[key], rel_tol=1e-12)):
                        raise Different(f"{folder} {key} of step {a['step']}: {a.get(key)}, one rank has {b.get(key)}")
                for key, (relative, absolute) in NEAR.items():
                    if key in b and not abs(a[key] - b[key]) <= relative * abs(b[key]) + absolute:
                        raise Different(f"{folder} {key} of step {a['step']}: {a[key]!r}, one rank has {b[key]!r}")
                worst = max(worst, abs(a["loss"] / b["loss"] - 1) if "loss" in b else 0)
            self.compare_tensors(folder)
        return worst

    def compare_tensors(self, folder):
        files = [name for name in os.listdir(self.path("alone", folder)) if name.endswith(".safetensors")]
        for name in files:
            ours, theirs = (read_tensors(self.path(output, folder, name)) for output in ("drawn", "alone"))
            if ours.keys() != theirs.keys():
                raise Different(f"{folder} {name} has other tensors: {sorted(ours.keys() ^ theirs.keys())[:4]}")
            # Lion takes the sign of a gradient, also of one that is rounding alone.
            for tensor, numbers in theirs.items() if "lion_32bit" not in self.settings else ():
                off = length(map(float.__sub__, ours[tensor], numbers)) if isinstance(numbers, array.array) else ours[tensor] != numbers
                if off > NEAR_TENSORS * max(length(numbers), 0.1) if isinstance(numbers, array.array) else off:
                    raise Different(f"{folder} {tensor} differs by {off}, its length is {length(numbers)}")


def explore(folder, seed, numbers):
    counts, refusals, failed, worst = collections.Counter(), collections.Counter(), [], 0.0
    for number in numbers:
        case = Case(folder, seed, number, counts, refusals)
        begin = time.monotonic()
        try:
            off = case.run()
            worst, words = max(worst, off), f"the same within {off:.1e}"
        except Different as difference:
            words = str(difference)
            failed.append(number)
        print(f"case {number}, {case.family}, {len(case.words)} starts, {time.monotonic() - begin:.0f} s: {words}", flush=True)
        if failed[-1:] == [number]:
            print("\n".join(case.words), flush=True)
        else:
            shutil.rmtree(case.folder)
    return {"cases": len(numbers), "failed": failed, "worst_loss": worst, **dict(sorted(counts.items())),
            "refusals": dict(refusals.most_common())}


def check_the_comparison(folder):
    """A resume with another setting than the undisturbed run must be found."""
    case = Case(folder, 0, "spoiled", collections.Counter(), collections.Counter(), spoiled=True)
    try:
        case.run()
    except Different as difference:
        assert "one rank has" in str(difference), difference
        return
    raise AssertionError("a resume with another adam_beta1 was not found")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=datetime.date.today().toordinal())
    parser.add_argument("--result")
    wish = parser.parse_args()
    print(f"seed {wish.seed}, cases {wish.first} to {wish.first + wish.cases - 1}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        check_the_comparison(folder)
        found = explore(folder, wish.seed, range(wish.first, wish.first + wish.cases))
    result = {"what": "random cases of architecture, settings, layouts, adapters and kills beside one undisturbed rank",
              "date": datetime.date.today().isoformat(), "command": " ".join(sys.argv), "seed": wish.seed, "first": wish.first, **found,
              "seconds": round(time.monotonic() - begin)}
    print(json.dumps(result, indent=1))
    if wish.result:
        with open(wish.result, "w") as file:
            file.write(json.dumps(result, indent=1) + "\n")
    sys.exit(1 if found["failed"] else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Kills a run again and again, at every phase of a save and at random times, and looks at what comes of it.

    TRAINER=./trainer tests/train/kill_storm.py [--kills 200] [--seed 1] [--adapters | --experts] [--result FILE.json]

One rank or all are ended with SIGKILL. After every kill each checkpoint with its final name must be whole, and the same
command must go on. A run that came to its end in spite of it all must have the curve, the weights and the moments of
one that nobody disturbed, to the bit (one layout, one thread, --full_determinism). With --adapters the run trains
three adapters together, which end at different steps. With --experts four ranks train a mixture of experts, and every
start has another number of ranks that share the experts of a block: then curves are equal but for the order of sums.
"""

import argparse
import collections
import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import MPIEXEC, TRAINER, clean_environment, read_steps, ranks_of, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
RANKS, STEPS = 2, 60
COMMAND = ["train", "--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"),
           "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false",
           "--learning_rate", "0.002", "--max_length", "48", "--max_steps", str(STEPS), "--logging_steps", "1",
           "--save_steps", "4", "--save_total_limit", "3", "--full_determinism", "--profile", "zero3",
           "--per_device_train_batch_size", "2"]
PHASES = ["save:copy", "save:begin", "save:layout", "save:write", "save:flush", "save:written", "save:describe",
          "save:name", "save:named", "save:latest", "step"]
ADAPTERS = {"first": {"lora_r": 4, "max_steps": STEPS // 3}, "second": {"lora_r": 8, "seed": 7, "max_steps": 2 * STEPS // 3},
            "last": {"lora_r": 2, "learning_rate": 0.01}}
EXPERTS = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 64,
           "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
           "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True,
           "max_position_embeddings": 256, "tie_word_embeddings": False, "router_aux_loss_coef": 0.05, "initializer_range": 0.1}
EP_SIZES = ("1", "2", "4")
KEYS = ("step", "loss", "grad_norm", "entropy", "learning_rate", "num_tokens", "epoch")


class Storm:
    def __init__(self, folder, seed, with_adapters=False, with_experts=False):
        self.folder, self.random = folder, random.Random(seed)
        self.kinds = collections.Counter()
        self.reference = os.path.join(folder, "reference")
        self.adapters = list(ADAPTERS) if with_adapters else []
        self.command = list(COMMAND)
        if with_adapters:
            self.command += ["--adapters", json.dumps([{"name": name, **own} for name, own in ADAPTERS.items()])]
        self.ranks, self.ep_sizes = RANKS, ()
        if with_experts:
            self.ranks, self.ep_sizes = 2 * RANKS, EP_SIZES
            self.command += ["--model_name_or_path", self.make_experts(), "--per_device_train_batch_size", "1"]
        result = run(*self.command, "--output_dir", self.reference, ranks=self.ranks, timeout=300)
        assert result.returncode == 0, result.stderr
        self.output = None
        self.runs = 0
        self.begin()

    def make_experts(self):
        config, model = os.path.join(self.folder, "config.json"), os.path.join(self.folder, "model")
        with open(config, "w") as file:
            json.dump(EXPERTS, file)
        made = run("init", "--config_json", config, "--output_dir", model)
        assert made.returncode == 0, made.stderr
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(DATA, "models", "qwen2-tiny", file), model)
        return model

    def begin(self):
        self.output = os.path.join(self.folder, f"run-{self.runs}")

    def launch(self, **variables):
        command = [MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", str(self.ranks), TRAINER, *self.command,
                   "--output_dir", self.output]
        if self.ep_sizes:
            self.ep_size = self.random.choice(self.ep_sizes)
            command += ["--ep_size", self.ep_size]
        self.said = tempfile.TemporaryFile("w+", dir=self.folder)
        return subprocess.Popen(command, env=clean_environment(**variables), stdout=subprocess.DEVNULL,
                                stderr=self.said, text=True)

    def words(self):
        self.said.seek(0)
        return self.said.read()

    def kill_once(self):
        """True if the run was killed, false if it came to its end first."""
        one = self.random.random() < 0.5
        if self.random.random() < 0.6:
            phase = self.random.choice(PHASES)
            nth = self.random.randint(1, 40 if phase in ("step", "save:write") else 4)
            rank = self.random.randrange(self.ranks) if one else None
            kind = f"{phase}, {'one rank' if one else 'all ranks'}"
            fault = f"{phase}:{nth}:kill" + ("" if rank is None else f"@{rank}")
            process = self.launch(RINGSHARD_FAULT=fault)
            process.wait(300)
        else:
            kind = f"random time, {'one rank' if one else 'all ranks'}"
            process = self.launch()
            time.sleep(self.random.uniform(0.3, 5))
            ranks = ranks_of(process)
            for rank in self.random.sample(ranks, 1) if one and ranks else ranks:
                try:
                    os.kill(rank, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait(300)
        if process.returncode == 0:
            self.finish()
            return False
        assert process.returncode in (128 + signal.SIGKILL, 1, 77), (kind, process.returncode, self.words())
        self.kinds[kind + (f", ep_size {self.ep_size}" if self.ep_sizes else "")] += 1
        self.look_through(kind)
        return True

    def look_through(self, kind):
        named = [name for name in os.listdir(self.output) if name.startswith("checkpoint-") and ".tmp-" not in name] \
            if os.path.isdir(self.output) else []
        if named:
            result = run("inspect", self.output)
            assert result.returncode == 0 and "damaged" not in result.stdout, (kind, result.stdout, result.stderr)

    def tensors(self, output):
        with open(os.path.join(output, f"checkpoint-{STEPS}", "manifest.json")) as file:
            return {(r["dataset"], r["first"]): r["xxh3_128"] for r in json.load(file)["ranges"]}

    def equal(self, ours, whole):
        tolerance = 1e-4 if self.ep_sizes else 0
        return all(abs(ours[key] - whole[key]) <= tolerance * abs(whole[key]) for key in KEYS)

    @staticmethod
    def content(*path):
        with open(os.path.join(*path), "rb") as file:
            return file.read()

    def finish(self):
        for name in ["", *self.adapters]:
            ours, whole = (read_steps(os.path.join(output, name)) for output in (self.output, self.reference))
            assert len(ours) == len(whole) and all(self.equal(a, b) for a, b in zip(ours, whole)), \
                (self.output, name, "the curve differs")
        for name in self.adapters:
            ours, whole = (self.content(output, name, "adapter_model.safetensors") for output in (self.output, self.reference))
            assert ours == whole, (self.output, name, "the adapter differs")
        if not self.ep_sizes:
            assert self.tensors(self.output) == self.tensors(self.reference), (self.output, "the weights differ")
        shutil.rmtree(self.output)
        self.runs += 1
        self.begin()

    def end(self):
        if os.path.isdir(self.output):
            process = self.launch()
            process.wait(300)
            assert process.returncode == 0, self.words()
            self.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--adapters", action="store_true")
    kind.add_argument("--experts", action="store_true")
    parser.add_argument("--result")
    wish = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        storm = Storm(folder, wish.seed, wish.adapters, wish.experts)
        kills = 0
        while kills < wish.kills:
            kills += storm.kill_once()
        storm.end()
        result = {"what": "kills, each followed by a look through every checkpoint and by going on; runs that came to "
                          "their end in spite of them, each equal to an undisturbed one" +
                          (", in every layout" if wish.experts else " to the bit"),
                  "date": datetime.date.today().isoformat(), "command": " ".join(sys.argv), "seed": wish.seed,
                  "kills": kills, "runs": storm.runs, "seconds": round(time.monotonic() - begin),
                  "kinds": dict(sorted(storm.kinds.items()))}
    print(json.dumps(result, indent=1))
    if wish.result:
        with open(wish.result, "w") as file:
            file.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Gated delta nets on one thread, beside transformers' chunked path.

    .deps/venv/bin/python tests/bench/delta_net.py [--rounds 3]

rule    the rule alone, forward and backward, at 4,096 and 65,536 tokens; both sides at 4,096. 16 times as many tokens may
        take 17 times as long, and transformers at least twice as long as this program.
layer   a training step of a model that is one layer, with its projections, convolution and norm, at 4,096 tokens.

Ways take turns; a number is the median over rounds and repetitions.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import models
import step
from bench_file import BUILD, PYTHON, ROOT, json_lines, median, write

HEADS = (4, 8, 128)  # of keys, of values, and their width
LAYER = {"hidden": 1024, "vocab": 128, "rows": 1, "tokens": 4096}


def rule(tokens):
    return [BUILD / "bin" / "bench_delta_rule", tokens, *HEADS, 1, 2, 0]


def measure_rule(rounds):
    ways = {"ours 4096": rule(4096), "ours 65536": rule(65536),
            "transformers 4096": [PYTHON, ROOT / "tests" / "bench" / "delta_rule_torch.py", 4096, *HEADS, 1, 1]}
    seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, command in ways.items():
            seconds[name] += [line["both"] for line in json_lines(list(map(str, command)))]
    found = {name: median(values) for name, values in seconds.items()}
    base = found["ours 4096"]
    return [{"what": "rule", "way": name, "seconds": value, "times_ours_4096": value / base} for name, value in found.items()]


def make_layer(folder):
    keys, values, width = HEADS
    config = {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": LAYER["hidden"], "intermediate_size": 16,
        "num_hidden_layers": 1, "layer_types": ["linear_attention"], "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64,
        "linear_num_key_heads": keys, "linear_num_value_heads": values, "linear_key_head_dim": width, "linear_value_head_dim": width,
        "vocab_size": LAYER["vocab"], "max_position_embeddings": 1 << 20, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
    }
    wanted = folder.parent / "config.json"
    wanted.write_text(json.dumps(config))
    subprocess.run([BUILD / "bin" / "trainer", "init", "--config_json", wanted, "--output_dir", folder], check=True, capture_output=True)
    return folder


def measure_layer(rounds):
    with tempfile.TemporaryDirectory() as scratch:
        folder = make_layer(pathlib.Path(scratch) / "layer")
        rows = models.write_rows(models.random_rows(LAYER), pathlib.Path(scratch) / "layer.rows")
        arguments = types.SimpleNamespace(only_ours=False, threads=1, repetitions=2 * rounds)
        found = step.measure("delta net", folder, rows, "fp32", False, arguments)
    ours, theirs = found["ours_ms"] / 1000, found["torch_ms"] / 1000
    return [{"what": "layer", "way": way, "seconds": value, "times_ours_4096": value / ours}
            for way, value in (("ours 4096", ours), ("transformers 4096", theirs))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    write("delta-net", f"seconds of a gated delta net, fp32, {HEADS[0]} key and {HEADS[1]} value heads of {HEADS[2]}", " ".join(sys.argv),
          measure_rule(rounds) + measure_layer(rounds))


if __name__ == "__main__":
    main()

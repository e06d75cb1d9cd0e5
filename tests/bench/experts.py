#!/usr/bin/env python3
"""A training step with 128 experts, 8 for each token, beside a dense model of the same work and beside transformers' experts.

    .deps/venv/bin/python tests/bench/experts.py [--precisions fp32 bf16] [--repetitions 7] [--only_ours]

Qwen3-30B-A3B at a quarter of its width: 2 blocks of width 512, experts of 192, 8 heads of 128. The dense Qwen3 has an MLP
of 8 x 192, so a token goes through the same products but for the router (2 % of them). A step has 4 rows of 1,024 tokens: an
expert gets 256 of them in the mean. The router is random, so it deals them unevenly, and each step has other rows.

pass    forward and backward: the same work on both sides
step    the pass, the norm of the gradient and AdamW, which goes over 9.4 times as many weights as in the dense model

Every side is a process of its own that takes one step on command, so all are warm, and they take turns. A number is the
median of the processor's milliseconds (one thread); a ratio is that of two medians. transformers' experts are grouped_mm (its default) or eager, a loop;
its AdamW is fused; in bf16 its whole model is bf16, without fp32 weights.
"""

import argparse
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile

import models
from bench_file import BUILD, PYTHON, write
from step import Side

TORCH_SIDE = pathlib.Path(__file__).resolve().with_name("step_torch.py")
EXPERTS, PER_TOKEN, INTERMEDIATE = 128, 8, 192
SHAPE = {"hidden": 512, "layers": 2, "heads": 8, "key_heads": 2, "head_dim": 128, "vocab": 2048, "rows": 4, "tokens": 1024}
WARM_UP = 2
BAR = 1.3


def make_model(folder, has_experts):
    config = {
        "architectures": ["Qwen3MoeForCausalLM" if has_experts else "Qwen3ForCausalLM"],
        "model_type": "qwen3_moe" if has_experts else "qwen3", "hidden_act": "silu", "hidden_size": SHAPE["hidden"],
        "intermediate_size": PER_TOKEN * INTERMEDIATE, "num_hidden_layers": SHAPE["layers"], "num_attention_heads": SHAPE["heads"],
        "num_key_value_heads": SHAPE["key_heads"], "head_dim": SHAPE["head_dim"], "vocab_size": SHAPE["vocab"],
        "max_position_embeddings": 1 << 16, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "initializer_range": 0.02,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    }
    if has_experts:
        config |= {"num_experts": EXPERTS, "num_experts_per_tok": PER_TOKEN, "moe_intermediate_size": INTERMEDIATE,
                   "norm_topk_prob": True, "router_aux_loss_coef": 0.0, "mlp_only_layers": [], "decoder_sparse_step": 1}
    wanted = folder.parent / (folder.name + ".json")
    wanted.write_text(json.dumps(config))
    subprocess.run([BUILD / "bin" / "trainer", "init", "--config_json", wanted, "--output_dir", folder], check=True, capture_output=True)
    return folder


def measure(precision, experts, dense, rows, arguments):
    ours = [rows, precision, "all", "--rows_of_step", SHAPE["rows"]]
    commands = {"experts": [BUILD / "bin" / "bench_step", experts, *ours], "dense": [BUILD / "bin" / "bench_step", dense, *ours]}
    if not arguments.only_ours:
        first = rows.with_name("first.rows")
        for way in ("grouped_mm", "eager"):
            commands[way] = [PYTHON, TORCH_SIDE, experts, first, precision, "fused", "no", way]
    sides = {name: Side(name, command, arguments.threads) for name, command in commands.items()}
    for side in sides.values():
        side.read()
    for turn in range(arguments.repetitions + WARM_UP):
        for name, side in sides.items():
            if name != "eager" or turn < 3:  # it takes many times as long
                side.step()
    for side in sides.values():
        side.end()
    first = [side.answers[0]["loss"] for name, side in sides.items() if name != "dense"]
    if any(abs(loss - first[0]) > (1e-4 if precision == "fp32" else 2e-2) * first[0] for loss in first):
        sys.exit(f"{precision}: the first losses differ: {first}")
    found = []
    for what, key in (("pass", "pass_cpu_ms"), ("step", "cpu_ms")):
        ways = {name: side for name, side in sides.items() if what == "step" or name in ("experts", "dense")}
        milliseconds = {name: side.median(key, WARM_UP) for name, side in ways.items()}
        for name in ways:
            found.append({"precision": precision, "what": what, "way": name, "cpu_ms": milliseconds[name],
                          "experts_over_it": milliseconds["experts"] / milliseconds[name],
                          "bar": BAR if name == "dense" else None, "peak_mb": ways[name].answers[-1]["peak_rss"] / 1e6,
                          "experts_mb": sides["experts"].answers[-1]["peak_rss"] / 1e6})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only_ours", action="store_true", help="without transformers and without a result file")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        experts, dense = make_model(scratch / "experts", True), make_model(scratch / "dense", False)
        steps = arguments.repetitions + WARM_UP
        all_rows = models.random_rows(SHAPE, SHAPE["rows"] * steps)
        rows = models.write_rows(all_rows, scratch / "all.rows")
        models.write_rows(all_rows[:SHAPE["rows"]], scratch / "first.rows")
        for precision in arguments.precisions:
            results += measure(precision, experts, dense, rows, arguments)
            for row in results[-6:]:
                print(json.dumps(row), flush=True)
    if arguments.only_ours:
        return
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers")}
    write("experts", __doc__ + f"\n{versions}\n{SHAPE}", " ".join(sys.argv), results)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Attention over one long document that ranks share, forward and backward, one thread to a rank.

    .deps/venv/bin/python tests/bench/attention.py [--rounds 3] [--types fp32 bf16]

split    16,384 tokens on one rank, on a ring of two and on two Ulysses ranks. `efficiency`: half of one rank's time over that of two.
hybrid   16,384 tokens on four ranks (two to a core, where there are two cores): a ring, Ulysses, and two of each. `to_best`: over
         the better of ring and Ulysses.
peer     8,192 tokens on two ranks beside PyTorch's templates of ring attention (attention_torch.py), 8 and 2 key heads.

Ways take turns; a number is the median over rounds and repetitions.
"""

import argparse
import sys

from bench_file import BUILD, PYTHON, ROOT, json_lines, median, write

HEADS, HEAD_DIM, REPETITIONS = 8, 64, 2


def ours(tokens, key_heads, ring, ulysses, kind, keys="ring"):
    ranks = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", ring * ulysses]
    return [*ranks, BUILD / "bin" / "bench_attention", tokens, HEADS, key_heads, HEAD_DIM, ring, ulysses, kind, keys, REPETITIONS]


def torch(tokens, key_heads, kind):
    return [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, ROOT / "tests" / "bench" / "attention_torch.py", tokens,
            HEADS, key_heads, HEAD_DIM, kind, REPETITIONS]


def take_turns(ways, rounds):
    seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, command in ways.items():
            seconds[name] += [line["seconds"] for line in json_lines(list(map(str, command)))]
    return {name: median(values) for name, values in seconds.items()}


def row(what, kind, key_heads, way, ranks, seconds):
    return {"what": what, "type": kind, "key_heads": key_heads, "way": way, "ranks": ranks, "seconds": seconds,
            "efficiency": None, "to_best": None, "to_peer": None}


def measure(kind, rounds):
    rows = []
    found = take_turns({"alone": ours(16384, 8, 1, 1, kind), "ring 2": ours(16384, 8, 2, 1, kind),
                        "allgather 2": ours(16384, 8, 2, 1, kind, "allgather"), "ulysses 2": ours(16384, 8, 1, 2, kind)}, rounds)
    for way, seconds in found.items():
        ranks = 1 if way == "alone" else 2
        rows.append(row("split", kind, 8, way, ranks, seconds) | {"efficiency": found["alone"] / ranks / seconds})
    found = take_turns({"ring 4": ours(16384, 8, 4, 1, kind), "ulysses 4": ours(16384, 8, 1, 4, kind),
                        "ring 2 x ulysses 2": ours(16384, 8, 2, 2, kind)}, rounds)
    best = min(found["ring 4"], found["ulysses 4"])
    rows += [row("hybrid", kind, 8, way, 4, seconds) | {"to_best": seconds / best} for way, seconds in found.items()]
    for key_heads in (8, 2):
        found = take_turns({"ring 2": ours(8192, key_heads, 2, 1, kind), "PyTorch": torch(8192, key_heads, kind)}, rounds)
        rows += [row("peer", kind, key_heads, way, 2, seconds) | {"to_peer": seconds / found["PyTorch"]}
                 for way, seconds in found.items()]
    return rows


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--types", nargs="+", default=["fp32", "bf16"])
wish = parser.parse_args()
write("attention", "seconds of attention forward and backward, 8 query heads of 64", " ".join(sys.argv),
      [line for kind in wish.types for line in measure(kind, wish.rounds)])

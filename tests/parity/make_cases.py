#!/usr/bin/env python3
"""The cases of cases_test.cpp: which runs are compared with the same run on one rank.

    tests/parity/make_cases.py                  writes cases/profiles.txt and cases/sequences.txt, which the tests run
    tests/parity/make_cases.py full FILE        every combination, for a long afternoon:
        for n in 1 2 4 8; do mpirun --oversubscribe -n $n build/release/bin/cases_parity -- FILE; done
"""

import itertools
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "cases"
HEADER = "# ranks, model, rows, micro-batches of a step, type, settings of the trainer. Written by make_cases.py.\n"

MODELS = ["qwen2-tiny", "qwen3-tiny", "llama3-tiny"]
PROFILES = {name: f"--profile {name}" for name in
            ("single_gpu", "multi_gpu", "zero1", "zero2", "zero3", "fsdp1", "fsdp2", "context_parallel_2gpu",
             "alst_ulysses_4gpu", "multi_node")}
STRATEGIES = {name: f"--profile fsdp1 --fsdp_sharding_strategy {name}" for name in
              ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")}
STRATEGIES |= {f"reshard {word}": f"--profile fsdp2 --fsdp_reshard_after_forward {word}" for word in ("true", "false")}
# Copies of the model that are each cut over half of the ranks.
HYBRIDS = {"HYBRID_SHARD", "HYBRID_SHARD_ZERO2"}
LEAST_RANKS = {"context_parallel_2gpu": 2, "alst_ulysses_4gpu": 4}
ONLY_RANKS = {"single_gpu": 1}

# key heads: 2 of 4, 2 of 8, 8 of 8
HEADS = ["qwen2-tiny", "llama3-tiny", "llama-mha-tiny"]
SPLITS = [(2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 2)]  # ring, Ulysses
CUTS = ["multi_gpu", "zero1", "zero2", "zero3"]


def line(ranks, model, rows, accumulation, precision, settings):
    return f"{ranks} {model} {rows} {accumulation} {precision} {settings}\n"


def profile_settings(name, settings, ranks):
    return f"{settings} --dp_replicate_size 2 --dp_shard_size {ranks // 2}" if name in HYBRIDS else settings


def runs_on(name, ranks):
    return ranks == ONLY_RANKS.get(name, ranks) and ranks >= LEAST_RANKS.get(name, 1)


def profile_cases():
    lines = []
    number = 0
    for ranks, ways in ((1, PROFILES), (2, PROFILES), (4, PROFILES | STRATEGIES),
                        (8, {"zero2": PROFILES["zero2"], "zero3": PROFILES["zero3"],
                             "HYBRID_SHARD": STRATEGIES["HYBRID_SHARD"]})):
        for name, settings in ways.items():
            if not runs_on(name, ranks) or (ranks == 1 and name != "single_gpu"):
                continue
            model, accumulation = MODELS[number % 3], (1, 4)[number // 3 % 2]
            number += 1
            lines.append(line(ranks, model, "packed", accumulation, "fp32", profile_settings(name, settings, ranks)))
    for name in ("zero1", "zero3"):
        for model in MODELS[:2]:
            lines.append(line(4, model, "packed", 1, "bf16", PROFILES[name]))
    # Projections that are one tensor, cut anywhere.
    lines.append(line(2, "phi3-tiny", "packed", 4, "fp32", PROFILES["zero2"]))
    for precision in ("fp32", "bf16"):
        lines.append(line(4, "phi3-tiny", "packed", 1, precision, f"{PROFILES['zero3']} --cp_size 2 --sp_size 2"))
    # A residual stream in fp32.
    lines.append(line(2, "qwen3-tiny", "packed", 4, "bf16/fp32", f"{PROFILES['zero2']} --sp_size 2"))
    for model in ("phi3-tiny", "olmo2-tiny"):
        lines.append(line(4, model, "packed", 1, "bf16/fp32", f"{PROFILES['zero3']} --cp_size 2 --sp_size 2"))
    # Norms over all heads, which Ulysses ranks share out.
    lines.append(line(2, "olmo2-tiny", "packed", 4, "fp32", f"{PROFILES['zero2']} --sp_size 2"))
    for precision in ("fp32", "bf16"):
        lines.append(line(4, "olmo2-tiny", "packed", 1, precision, f"{PROFILES['zero3']} --cp_size 2 --sp_size 2"))
    lines.append(line(8, "olmo2-tiny", "packed", 1, "fp32", f"{PROFILES['zero3']} --cp_size 2 --sp_size 4"))
    # Without a micro-batch to spare, and with the last one alone reduced over the copies.
    lines.append(line(8, "qwen2-tiny", "packed", 4, "fp32", profile_settings("HYBRID_SHARD", STRATEGIES["HYBRID_SHARD"], 8)))
    return lines


def split_settings(ring, ulysses):
    return f"--cp_size {ring} --sp_size {ulysses}"


def sequence_cases():
    lines = []
    # Every split with every profile; the other columns walk through their values at strides that meet every pair.
    for (i, (ring, ulysses)), (j, profile) in itertools.product(enumerate(SPLITS), enumerate(CUTS)):
        number = 4 * i + j
        model = HEADS[(i + j) % 3]
        rows = ("packed", "one")[(i + j // 2) % 2]
        accumulation = (1, 4)[(number + i) % 2] if ring * ulysses < 8 else 1
        spare = 2 if ring * ulysses <= 2 and j % 2 else 1  # two data ranks too
        lines.append(line(ring * ulysses * spare, model, rows, accumulation, "fp32",
                          f"--profile {profile} {split_settings(ring, ulysses)}"))
    lines.append("# One long document among short ones, where ring ranks share every document.\n")
    for number, (ring, ulysses) in enumerate([(2, 1), (4, 1), (2, 2), (8, 1), (4, 2)]):
        lines.append(line(ring * ulysses, HEADS[number % 3], "uneven", (1, 4)[number % 2], "fp32",
                          f"--profile {CUTS[3 - number % 2]} {split_settings(ring, ulysses)}"))
    lines.append("# Keys and values of all ring ranks gathered at once.\n")
    for number, (ring, ulysses) in enumerate([(2, 1), (4, 1), (2, 2), (8, 1), (4, 2)]):
        for rows in ("packed", "uneven"):
            lines.append(line(ring * ulysses, HEADS[(number + 1) % 3], rows, (1, 4)[number % 2], "fp32",
                              f"--profile {CUTS[3 - number % 2]} {split_settings(ring, ulysses)}"
                              " --cp_comm_strategy allgather"))
    lines.append("# Heads that travel in a wider type than they are computed in.\n")
    for ring, ulysses in ((1, 2), (1, 4), (2, 2)):
        lines.append(line(ring * ulysses, "qwen2-tiny", "packed", 1, "bf16", f"--profile zero3 {split_settings(ring, ulysses)}"
                          " --seq_parallel_communication_data_type fp32"))
    lines.append("# The rows of the guide's table of two dimensions: sp 2 x shard 2, sp 4, sp 2 x shard 4.\n")
    for ranks, ulysses in ((4, 2), (4, 4), (8, 2)):
        lines.append(line(ranks, "llama3-tiny", "packed", 1, "fp32", f"--profile alst_ulysses_4gpu --sp_size {ulysses}"))
    return lines


def full_cases():
    for ranks, model, accumulation, precision in itertools.product((1, 2, 4, 8), MODELS, (1, 4), ("fp32", "bf16")):
        for name, settings in (PROFILES | STRATEGIES).items():
            if runs_on(name, ranks) and not (name in HYBRIDS and ranks < 4):
                yield line(ranks, model, "packed", accumulation, precision, profile_settings(name, settings, ranks))
    for (ring, ulysses), model, rows, accumulation in itertools.product(SPLITS, HEADS, ("packed", "one", "uneven"), (1, 4)):
        for profile, ranks in itertools.product(CUTS + ["fsdp2"], (2, 4, 8)):
            if ranks % (ring * ulysses) == 0:
                yield line(ranks, model, rows, accumulation, "fp32",
                           f"--profile {profile} {split_settings(ring, ulysses)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["full"]:
        pathlib.Path(sys.argv[2]).write_text(HEADER + "".join(full_cases()))
    else:
        for name, cases in (("profiles", profile_cases()), ("sequences", sequence_cases())):
            (FOLDER / f"{name}.txt").write_text(HEADER + "".join(cases))
            print(f"cases/{name}.txt: {sum(not case.startswith('#') for case in cases)} cases")

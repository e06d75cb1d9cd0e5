#!/usr/bin/env python3
"""Collectives of fp32 tensors over MPI here and over gloo in torch.distributed, in one run on one machine.

    tests/bench/compare_collectives.py [rounds]

Medians over interleaved rounds, each the median of ten repetitions.
"""

import collections
import sys

import bench_file

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
ours = collections.defaultdict(list)
gloo = collections.defaultdict(list)
for ranks in (2, 4):
    for _ in range(rounds):
        for times, command in (
            (ours, ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), bench_file.BUILD / "bin/bench_collectives"]),
            (gloo, [bench_file.PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
                    bench_file.ROOT / "tests/bench/collectives_gloo.py"]),
        ):
            for line in bench_file.json_lines(command):
                times[line["operation"], line["mib"], line["ranks"]].append(line["ms"])
rows = []
for key, times in ours.items():
    mine, theirs = bench_file.median(times), bench_file.median(gloo[key])
    rows.append({"operation": key[0], "MiB": key[1], "ranks": key[2], "MPI ms": mine, "gloo ms": theirs, "ratio": mine / theirs})
bench_file.write("collectives", "milliseconds per collective, fp32, one thread per rank", " ".join(sys.argv), rows)

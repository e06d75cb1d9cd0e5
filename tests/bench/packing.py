#!/usr/bin/env python3
"""Packing next to TRL's pack_dataset: the same documents, best fit decreasing, one core, rounds that take turns.

    .deps/venv/bin/python tests/bench/packing.py

Documents of min(6000, exponential of mean 500, + 1) tokens. TRL moves the tokens while it packs; ours plans which
tokens make up each row (planned_s) and moves them when a row is read (gathered_s: planned, and every row read once).
"""

import json
import random
import subprocess
import time

import datasets
from bench_file import BUILD, median, write
from trl import pack_dataset

ROUNDS = 3
datasets.disable_progress_bars()


def lengths(count):
    rng = random.Random(1)
    return [min(6000, int(rng.expovariate(1 / 500)) + 1) for _ in range(count)]


def ours(documents, max_length, problem_size):

    output = subprocess.run([BUILD / "bin" / "bench_packing", str(max_length), str(problem_size)], check=True,
                            input="\n".join(map(str, documents)), capture_output=True, text=True).stdout
    return json.loads(output)


def theirs(dataset, max_length, problem_size):
    start = time.perf_counter()
    packed = pack_dataset(dataset, max_length, "bfd",
                          {"batch_size": problem_size or len(dataset), "load_from_cache_file": False,
                           "keep_in_memory": True})
    return time.perf_counter() - start, len(packed)


def main():
    rows = []
    for count, max_length, problem_size in ((100_000, 1024, 1000), (100_000, 4096, 1000), (100_000, 4096, 0)):
        documents = lengths(count)
        dataset = datasets.Dataset.from_dict({"input_ids": [[7] * n for n in documents]})
        our_times, gathered, their_times = [], [], []
        for _ in range(ROUNDS):
            mine = ours(documents, max_length, problem_size)
            our_times.append(mine["planned_s"])
            gathered.append(mine["gathered_s"])
            seconds, their_rows = theirs(dataset, max_length, problem_size)
            their_times.append(seconds)
            assert their_rows == mine["rows"], (their_rows, mine)
        rows.append({"documents": count, "max_length": max_length, "at_once": problem_size or count,
                     "rows": mine["rows"], "planned_s": median(our_times), "gathered_s": median(gathered),
                     "trl_s": median(their_times), "times_faster": median(their_times) / median(our_times),
                     "times_faster_gathered": median(their_times) / median(gathered)})
    million = ours(lengths(1_000_000), 4096, 1000)
    at_once = ours(lengths(1_000_000), 4096, 0)
    for problem_size, result in ((1000, million), (1_000_000, at_once)):
        rows.append({"documents": 1_000_000, "max_length": 4096, "at_once": problem_size, "rows": result["rows"],
                     "planned_s": result["planned_s"], "gathered_s": result["gathered_s"], "trl_s": None,
                     "times_faster": None, "times_faster_gathered": None})
    write("packing", __doc__.splitlines()[0], ".deps/venv/bin/python tests/bench/packing.py", rows)


if __name__ == "__main__":
    main()

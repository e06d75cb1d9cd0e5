#!/usr/bin/env python3
"""Saving a state that is cut over ranks: here, as plain writes, and with what people use today; one run, one file system.

    tests/bench/checkpoint.py FOLDER [--millions 98] [--ranks 2] [--rounds 3]

FOLDER is on the file system to measure, and is removed afterwards. Programs take turns; medians over the rounds.
"""

import argparse
import collections
import os
import shutil
import sys

from bench_file import BUILD, PYTHON, ROOT, json_lines, median, write

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder")
parser.add_argument("--millions", type=int, default=98)
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--rounds", type=int, default=3)
wish = parser.parse_args()
if os.path.exists(wish.folder):
    sys.exit(f"{wish.folder}: is there already")

ours = collections.defaultdict(list)
theirs = collections.defaultdict(lambda: collections.defaultdict(list))
sizes = [str(wish.millions), "1"]
for _ in range(wish.rounds):
    for command in (["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(wish.ranks),
                     BUILD / "bin/bench_checkpoint", wish.folder, *sizes],
                    [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", str(wish.ranks),
                     ROOT / "tests/bench/checkpoint_torch.py", wish.folder, *sizes]):
        os.makedirs(wish.folder)
        for line in json_lines(command):
            into = theirs[line.pop("way")] if "way" in line else ours
            for name, value in line.items():
                into[name].append(value)
        shutil.rmtree(wish.folder)

plain, copied = median(ours["plain_s"]), median(ours["memcpy_s"])
rows = [{"way": "memcpy of the shard", "stall s": copied, "durable s": 0.0},
        {"way": "plain parallel pwrite + fsync", "stall s": plain, "durable s": plain},
        {"way": "trainer", "stall s": median(ours["stall_s"]), "durable s": median(ours["durable_s"])}]
names = {"gather": "gather + torch.save + fsync", "sync": "torch.distributed.checkpoint.save",
         "async": "torch.distributed.checkpoint.async_save"}
for way, numbers in theirs.items():
    rows.append({"way": names[way], "stall s": median(numbers["stall_s"]), "durable s": median(numbers["durable_s"])})
for row in rows:
    row["stall / memcpy"] = row["stall s"] / copied
    row["durable / plain"] = row["durable s"] / plain
    row["more memory / shard"] = max(ours["more_bytes"]) / ours["shard_bytes"][0] if row["way"] == "trainer" else "-"
write("checkpoint", f"seconds to save {ours['bytes'][0]} bytes cut over {wish.ranks} ranks, fp32 with both moments",
      " ".join(sys.argv), rows)

"""Every reader of files takes broken input without a crash: seeds, their prefixes and repeatable mutations.

scripts/fuzz looks further, under sanitizers and guided by coverage; this is the part that every run of the tests can afford.
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
loader = importlib.machinery.SourceFileLoader("fuzz", str(ROOT / "scripts" / "fuzz"))
fuzz = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", loader))
loader.exec_module(fuzz)

MUTATIONS = {"tokenizer": 400, "cache": 5000, "safetensors": 5000, "manifest": 1000}  # of each seed; others 200
# libhdf5 itself crashes over files that are broken on purpose, so only scripts/fuzz, which goes on after that, looks at `state`.
READERS = [name for name in fuzz.NAMES if name != "state"]


class BrokenInput(unittest.TestCase):
    def test_no_reader_crashes(self):
        for name in READERS:
            with self.subTest(name), tempfile.TemporaryDirectory(prefix="ringshard-broken-") as folder:
                seeds = pathlib.Path(folder) / "seeds"
                fuzz.write_seeds(name, seeds)
                mutations = MUTATIONS.get(name, 200)
                # glibc checks the heap and fills what is freed, so that a write beyond a block or a use after its end shows.
                environment = {**os.environ, "TMPDIR": folder, "OMP_NUM_THREADS": "1", "MALLOC_PERTURB_": "165"}
                run = subprocess.run([f"{BIN}/{name}_replay", seeds, str(mutations)], env=environment, capture_output=True, text=True, errors="replace")
                self.assertEqual(run.returncode, 0, run.stderr[-2000:])
                self.assertGreater(int(run.stdout), mutations * len(list(seeds.iterdir())))


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()

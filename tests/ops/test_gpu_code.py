"""The code that nvcc makes of the kernels, by the compiler's own report: no kernel spills registers or has a stack, and kernels of packs of
sixteen bytes read and write them at once.

NVCC is the compiler; a machine without it has nothing to look at.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KERNELS = sorted((ROOT / "src/ops/gpu").glob("*.cu"))
ARCHITECTURE = 90
NVCC = os.environ.get("NVCC", "nvcc")
PTXAS = str(pathlib.Path(NVCC).parent / "ptxas") if os.sep in NVCC else "ptxas"

ENTRY = re.compile(r"Compiling entry function '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
                   re.DOTALL)
# The type of the numbers and how many a pack has, as names of programs end in them: <..., __nv_bfloat16, 8, ...>.
PACK = re.compile(r"(13__nv_bfloat16|S\d*_|f)Li(\d+)E")
WIDE = {"ld": re.compile(r"\bld\.(global\.)?(nc\.)?(v4\.[a-z]32|v2\.[a-z]64)"),
        "st": re.compile(r"\bst\.(global\.)?(v4\.[a-z]32|v2\.[a-z]64)")}
# Embeddings add to a table in fp32 that begins anywhere; a code of four bits is half a byte.
NARROW = {("embedding.cu", "st"), ("nf4.cu", "ld")}


def has_packs_of_sixteen_bytes(name):
    pack = PACK.search(name)
    return pack is not None and pack[2] == ("4" if pack[1] == "f" else "8")


def entries_of(ptx):
    """Names and bodies."""
    for body in ptx.split(".entry ")[1:]:
        yield body[:body.index("(")].strip(), body


class GpuCode(unittest.TestCase):
    def test_kernels_spill_nothing_and_use_wide_accesses(self):
        self.assertGreater(len(KERNELS), 10)
        wide = 0
        for source in KERNELS:
            with tempfile.TemporaryDirectory() as folder, self.subTest(file=source.name):
                ptx = pathlib.Path(folder) / "code.ptx"
                subprocess.run([NVCC, "-ptx", f"-arch=compute_{ARCHITECTURE}", "-std=c++17", "-O3", str(source), "-o", str(ptx)],
                               check=True)
                report = subprocess.run([PTXAS, "-v", f"-arch=sm_{ARCHITECTURE}", str(ptx), "-o", os.devnull],
                                        check=True, capture_output=True, text=True).stderr
                entries = dict(entries_of(ptx.read_text()))
                reported = ENTRY.findall(report)
                self.assertEqual({name for name, *_ in reported}, set(entries))
                for name, *bytes_ in reported:
                    self.assertEqual(bytes_, ["0", "0", "0"], f"stack, spill stores, spill loads of {name}")
                for name, body in entries.items():
                    if not has_packs_of_sixteen_bytes(name):
                        continue
                    wide += 1
                    for access, pattern in WIDE.items():
                        if (source.name, access) in NARROW:
                            continue
                        self.assertRegex(body, pattern, f"{access} of sixteen bytes in {name}")
        self.assertGreater(wide, 20)


if __name__ == "__main__":
    try:
        subprocess.run([NVCC, "--version"], check=True, capture_output=True)
    except (FileNotFoundError, PermissionError):
        print("no nvcc here")
        sys.exit(77)
    unittest.main()

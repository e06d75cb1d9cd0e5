"""The code that nvcc makes of the kernels for compute capability 9: no kernel spills registers or has a stack, kernels of packs of sixteen
bytes read and write them at once, and none of these needs more registers or instructions, or has fewer blocks on a multiprocessor, than
gpu_code.json says.

NVCC is the compiler; a machine without it has nothing to look at. With `--write` the file gets the numbers of today.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KERNELS = sorted((ROOT / "src/ops/gpu").glob("*.cu"))
NUMBERS = pathlib.Path(__file__).parent / "gpu_code.json"
ARCHITECTURE = 90
NVCC = os.environ.get("NVCC", "nvcc")
PTXAS = str(pathlib.Path(NVCC).parent / "ptxas") if os.sep in NVCC else "ptxas"

ENTRY = re.compile(r"Compiling entry function '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                   r".*?Used (\d+) registers(?:, used \d+ barriers)?(?:, (\d+) bytes smem)?", re.DOTALL)
# The type of the numbers and how many a pack has, as names of programs end in them: <..., __nv_bfloat16, 8, ...>.
PACK = re.compile(r"(13__nv_bfloat16|S\d*_|f)Li(\d+)E")
WIDE = {"ld": re.compile(r"\bld\.(global\.)?(nc\.)?(v4\.[a-z]32|v2\.[a-z]64)"),
        # Into shared memory where a kernel raises maxima of memory with atomics (FP8's columns).
        "st": re.compile(r"\bst\.(global\.|shared\.)?(v4\.[a-z]32|v2\.[a-z]64)")}
# Embeddings add to a table in fp32 that begins anywhere; a code of four bits is half a byte, one of eight a byte.
NARROW = {("embedding.cu", "st"), ("nf4.cu", "ld"), ("int8.cu", "ld")}
# Of a multiprocessor.
REGISTERS, THREADS, BLOCKS, SHARED_BYTES = 65536, 2048, 32, 227 * 1024
# Of the two passes while they divided exactly, for each store of sixteen bytes: their loops may be unrolled. With the code that the eight
# calls of a pack go to, which counts once.
INSTRUCTIONS_OF_SWIGLU_BEFORE = {"SwiGluForward": 371 / 1, "SwiGluBackward": 436 / 3}


def has_packs_of_sixteen_bytes(name):
    pack = PACK.search(name)
    return pack is not None and pack[2] == ("4" if pack[1] == "f" else "8")


def entries_of(ptx):
    """Names and bodies."""
    for body in ptx.split(".entry ")[1:]:
        yield body[:body.index("(")].strip(), body


def disassembler():
    """That of the toolkit, or the one in the wheel of triton, which PyTorch for GPUs comes with."""
    places = [pathlib.Path(NVCC).parent, *(pathlib.Path(path) / "triton/backends/nvidia/bin" for path in sys.path)]
    found = shutil.which("nvdisasm", path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))
    if found is None:
        raise FileNotFoundError(f"no nvdisasm beside {NVCC}, in the wheel of triton or in PATH")
    return found


def code_of(cubin):
    """The instructions of each kernel."""
    text = subprocess.run([disassembler(), "-c", str(cubin)], check=True, capture_output=True, text=True).stdout
    code = {}
    for section in re.split(r"^\s*\.section\s+\.text\.", text, flags=re.MULTILINE)[1:]:
        name = re.match(r"[^,\s]+", section)[0].rstrip('"').lstrip('"')
        code[name] = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:\{ )?(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)", section)
    return code


class Kernel:
    def __init__(self, source, name, report, instructions):
        demangled = subprocess.run(["c++filt", name], check=True, capture_output=True, text=True).stdout.strip()
        found = re.search(r"go_through<(\d+), (\d+), (.*)>\(", demangled)
        self.threads_of_team, self.planned_blocks = int(found[1]), int(found[2])
        program = re.sub(r"ringshard::ops::(?:gpu::)?|\(anonymous namespace\)::|__nv_", "", found[3]).replace("float16", "f16")
        self.program = re.match(r"\w+", program)[0]
        self.title = f"{source.stem}: {program.strip()}, {self.threads_of_team} threads"
        self.stack_and_spills = report[:3]
        self.registers, shared = int(report[3]), int(report[4] or 0)
        self.threads = self.threads_of_team * (8 if self.threads_of_team == 32 else 1)
        of_warp = -(-self.registers * 32 // 256) * 256
        # Of its static memory alone: what a launch asks for is gpu_grid_test's.
        self.blocks = min(REGISTERS // (of_warp * self.threads // 32), THREADS // self.threads, BLOCKS,
                          SHARED_BYTES // (shared + 1024))
        self.instructions = sum(not instruction.startswith("NOP") for instruction in instructions)
        self.calls = sum(instruction.startswith("CALL") for instruction in instructions)
        self.wide_stores = sum(re.match(r"STG\.E\.128|STG\.E\.\w+\.128", instruction) is not None for instruction in instructions)

    def numbers(self):
        return {"registers": self.registers, "blocks": self.blocks, "instructions": self.instructions}


def compile_kernels(source):
    """The kernels of a source by their names, and the bodies of their PTX."""
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = pathlib.Path(folder) / "code.ptx", pathlib.Path(folder) / "code.cubin"
        subprocess.run([NVCC, "-ptx", f"-arch=compute_{ARCHITECTURE}", "-std=c++17", "-O3", "--expt-relaxed-constexpr", "-I",
                        str(ROOT / "include"), str(source), "-o", str(ptx)], check=True)
        report = subprocess.run([PTXAS, "-v", f"-arch=sm_{ARCHITECTURE}", str(ptx), "-o", str(cubin)],
                                check=True, capture_output=True, text=True).stderr
        code = code_of(cubin)
        kernels = {name: Kernel(source, name, rest, code[name]) for name, *rest in ENTRY.findall(report)}
        return kernels, dict(entries_of(ptx.read_text()))


def compile_all():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(KERNELS, pool.map(compile_kernels, KERNELS)))


def numbers_of(compiled):
    """Those of kernels of whole packs, which have nearly all the work."""
    return {kernel.title: kernel.numbers() for kernels, _ in compiled.values() for name, kernel in kernels.items()
            if has_packs_of_sixteen_bytes(name)}


class GpuCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.compiled = compile_all()

    def kernels(self):
        for source, (kernels, _) in self.compiled.items():
            for name, kernel in kernels.items():
                yield source, name, kernel

    def test_kernels_spill_nothing_and_use_wide_accesses(self):
        self.assertGreater(len(KERNELS), 10)
        wide = 0
        for source, (kernels, entries) in self.compiled.items():
            with self.subTest(file=source.name):
                self.assertEqual(set(kernels), set(entries))
                for kernel in kernels.values():
                    self.assertEqual(kernel.stack_and_spills, ["0", "0", "0"], f"stack, spill stores, spill loads of {kernel.title}")
                for name, body in entries.items():
                    if not has_packs_of_sixteen_bytes(name):
                        continue
                    wide += 1
                    for access, pattern in WIDE.items():
                        if (source.name, access) in NARROW:
                            continue
                        self.assertRegex(body, pattern, f"{access} of sixteen bytes in {name}")
        self.assertGreater(wide, 20)

    def test_registers_blocks_and_instructions_are_those_of_the_file(self):
        """Other compilers may schedule a little differently: a twentieth more instructions are no change of the source."""
        now, before = numbers_of(self.compiled), json.loads(NUMBERS.read_text())
        self.assertEqual(sorted(now), sorted(before), "kernels that are new or gone: run this file with --write")
        for title, numbers in now.items():
            with self.subTest(kernel=title):
                self.assertLessEqual(numbers["registers"], before[title]["registers"])
                self.assertGreaterEqual(numbers["blocks"], before[title]["blocks"])
                self.assertLessEqual(numbers["instructions"], 1.05 * before[title]["instructions"])

    def test_backward_passes_over_rows_fill_every_multiprocessor_at_once(self):
        """They launch as many blocks for each multiprocessor as grid.hpp plans: if fewer were resident, the last would run alone."""
        found = 0
        for _, _, kernel in self.kernels():
            if kernel.program not in {"NormBackward", "HeadBackward"}:
                continue
            found += 1
            self.assertEqual(kernel.planned_blocks * kernel.threads, 1024, kernel.title)
            self.assertGreaterEqual(kernel.blocks, kernel.planned_blocks, kernel.title)
        self.assertGreater(found, 20)

    def test_swiglu_divides_without_a_call(self):
        found = 0
        for _, name, kernel in self.kernels():
            before = INSTRUCTIONS_OF_SWIGLU_BEFORE.get(kernel.program)
            if before is None:
                continue
            self.assertEqual(kernel.calls, 0, kernel.title)
            if PACK.search(name)[2] == "8":
                found += 1
                self.assertLessEqual(kernel.instructions / kernel.wide_stores, 0.7 * before, kernel.title)
        self.assertEqual(found, 2)


if __name__ == "__main__":
    try:
        subprocess.run([NVCC, "--version"], check=True, capture_output=True)
    except (FileNotFoundError, PermissionError):
        print("no nvcc here")
        sys.exit(77)
    if sys.argv[1:] == ["--write"]:
        NUMBERS.write_text(json.dumps(numbers_of(compile_all()), indent=1, sort_keys=True) + "\n")
    else:
        unittest.main()

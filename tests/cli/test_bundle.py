"""scripts/bundle: the archive runs from any folder, with nothing but libc and a PyTorch wheel of the machine."""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader

from trainer import TRAINER, TrainerTest, read_steps

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TINY = REPOSITORY / "configs/examples/tiny"
BUILD = pathlib.Path(TRAINER).resolve().parents[1]
TORCH = pathlib.Path(re.search(r"RINGSHARD_TORCH_DIR:PATH=(.*)", (BUILD / "CMakeCache.txt").read_text())[1])
OF_LIBC = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|util|resolv|nss_\w+))\.so|linux-vdso")


class BundleTest(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.work.cleanup)
        cls.folder = pathlib.Path(cls.work.name).resolve()
        archive = cls.folder / "ringshard.tar.gz"
        subprocess.run([sys.executable, REPOSITORY / "scripts/bundle", BUILD, "-o", archive], check=True)
        subprocess.run(["tar", "xzf", archive, "-C", cls.folder], check=True)
        archive.unlink()
        cls.bundle = cls.folder / "ringshard"

    def run_bundle(self, *arguments, ranks=None, **variables):
        """With no variable of this process but those that are named."""
        command = [self.bundle / "bin/trainer", *arguments]
        if ranks is not None:
            command = [self.bundle / "bin/mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
        environment = {"PATH": "/usr/bin:/bin", "HF_HOME": str(self.folder / "hf"), "OMP_NUM_THREADS": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=120,
                              env=environment | variables)

    def train(self, output, steps, ranks=None, **variables):
        model = self.folder / "model"
        if not model.exists():
            made = self.run_bundle("init", "--config_json", TINY / "config.json", "--output_dir", model, **variables)
            self.expect(made, 0)
        self.expect(self.run_bundle(
            "--model_name_or_path", model, "--dataset_name", TINY / "notes.jsonl", "--output_dir", output, "--max_steps",
            str(steps), "--lr_scheduler_type", "constant", "--learning_rate", "1e-3", "--per_device_train_batch_size",
            str(8 // (ranks or 1)), "--save_steps", "2", "--logging_steps", "1", ranks=ranks, **variables), 0)
        return [step["loss"] for step in read_steps(output)]

    def test_every_library_is_the_bundles_or_libcs_or_the_wheels(self):
        logs = self.folder / "loaded"
        logs.mkdir()
        # As if modules of a cluster offered other builds of the same libraries.
        linked = subprocess.run(["ldd", TRAINER], capture_output=True, text=True, check=True).stdout
        elsewhere = os.path.dirname(re.search(r"libmpi\S* => (\S+)", linked)[1])
        self.train(self.folder / "run-libraries", 2, ranks=2, RINGSHARD_TORCH_DIR=str(TORCH),
                   LD_LIBRARY_PATH=elsewhere, LD_DEBUG="files", LD_DEBUG_OUTPUT=str(logs / "log"))
        loaded = set()
        for log in logs.iterdir():
            of_process = set(re.findall(r"calling init: (\S+)", log.read_text(errors="replace")))
            if any(path.startswith(f"{self.bundle}/") for path in of_process):  # not the machine's own sh
                loaded |= of_process
        wheels = TORCH.resolve().parent
        strangers = {path for path in loaded
                     if not OF_LIBC.match(os.path.basename(path)) and not path.startswith(f"{self.bundle}/")
                     and wheels / "torch" not in pathlib.Path(path).resolve().parents
                     and wheels / "nvidia" not in pathlib.Path(path).resolve().parents}
        self.assertEqual(strangers, set())
        names = {os.path.basename(path).split(".so")[0] for path in loaded}
        for name in ("libmpi", "libpmix", "libhwloc", "libarrow", "libparquet", "libstdc++", "libtorch_cpu", "mca_btl_vader"):
            self.assertIn(name, names)

    def test_trains_saves_and_goes_on_with_another_number_of_ranks(self):
        output, torch = self.folder / "run", str(TORCH)
        first = self.train(output, 4, RINGSHARD_TORCH_DIR=torch)
        self.assertEqual(len(first), 4)
        losses = self.train(output, 8, ranks=2, RINGSHARD_TORCH_DIR=torch)
        self.assertEqual(len(losses), 8)
        self.assertEqual(losses[:4], first)
        self.assertLess(losses[-1], losses[0])

    def test_a_wheel_is_found_where_a_python_or_the_bundle_has_it(self):
        site_packages = self.folder / "env/lib/python3.11/site-packages"
        site_packages.mkdir(parents=True)
        (self.folder / "env/bin").mkdir()
        (site_packages / "torch").symlink_to(TORCH)
        self.expect(self.run_bundle("doctor", PATH=f"{self.folder}/env/bin:/usr/bin:/bin"), 0)
        self.expect(self.run_bundle("doctor", PYTHONPATH=f"/nowhere:{site_packages}"), 0)
        (self.bundle / "torch").symlink_to(TORCH)
        self.addCleanup((self.bundle / "torch").unlink)
        self.expect(self.run_bundle("doctor"), 0)

    def test_no_wheel_and_wrong_wheels_are_told(self):
        self.expect(self.run_bundle("doctor", PATH="/nowhere"), 66,
                    "LibTorch 2.", "was not found in a Python of PATH or PYTHONPATH",
                    "name it by RINGSHARD_TORCH_DIR=/path/to/site-packages/torch")
        self.expect(self.run_bundle("doctor", RINGSHARD_TORCH_DIR="/nowhere/torch"), 66,
                    "RINGSHARD_TORCH_DIR = /nowhere/torch: there is no /nowhere/torch/lib/libtorch_c")
        other = self.folder / "other/torch"
        (other / "lib").mkdir(parents=True)
        for name in ("libtorch_cpu.so", "libtorch_cuda.so"):
            (other / "lib" / name).touch()
        (other / "version.py").write_text("__version__ = '2.9.1+cu128'\n")
        self.expect(self.run_bundle("doctor", RINGSHARD_TORCH_DIR=str(other)), 78,
                    "is PyTorch 2.9.1 and this program was built with 2.", "pip install torch==2.")
        self.expect(self.run_bundle("doctor", PATH="/nowhere", PYTHONPATH=str(other.parent)), 66, "is PyTorch 2.9.1")
        alone = self.folder / "alone/torch/lib"
        alone.mkdir(parents=True)
        for name in ("libtorch_cpu.so", "libtorch_cuda.so"):
            (alone / name).symlink_to(TORCH / "lib" / name)
        self.expect(self.run_bundle("doctor", RINGSHARD_TORCH_DIR=str(alone.parent)), 66,
                    "cannot be loaded: lib", "the folder `nvidia` beside `torch`")
        self.expect(self.run_bundle("plan", "--world", "8", RINGSHARD_TORCH_DIR="/nowhere/torch"), 66,
                    "RINGSHARD_TORCH_DIR = /nowhere/torch")

    def test_an_archive_near_its_limit_says_so_and_one_above_it_is_refused(self):
        loader = SourceFileLoader("bundle", str(REPOSITORY / "scripts/bundle"))
        script = importlib.util.module_from_spec(importlib.util.spec_from_loader("bundle", loader))
        loader.exec_module(script)
        archive = self.folder / "large.tar.xz"
        archive.write_bytes(bytes(2_000_000))
        for limit, warning in ((2_300_000, ""), (2_200_000, "the archive has 2.0 MB, and 2.2 MB is the limit: 0.2 MB are left")):
            script.LIMIT_WITH_TESTS = limit
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(script.check_size(archive, True, True), f"the archive has 2.0 MB, and {limit / 1e6:.1f} MB is the limit")
            self.assertIn(warning, said.getvalue())
            self.assertEqual(bool(said.getvalue()), bool(warning))
        script.LIMIT_WITH_TESTS = 1_999_999
        with self.assertRaises(SystemExit) as refused:
            script.check_size(archive, True, True)
        self.assertIn("large.tar.xz: the archive has 2.0 MB, and 2.0 MB is the limit: -o NAME.tar.xz packs tighter; a build of the preset "
                      "gpu-check is the smallest; a build with -DRINGSHARD_ONEDNN=OFF leaves oneDNN out", str(refused.exception))

    def test_a_folder_without_a_build_is_refused(self):
        result = subprocess.run([sys.executable, REPOSITORY / "scripts/bundle", self.folder], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is no folder with a finished build", result.stderr)


if __name__ == "__main__":
    if shutil.which("patchelf") is None:
        print("skipped: patchelf is missing (scripts/setup installs it)")
        sys.exit(77)
    unittest.main()

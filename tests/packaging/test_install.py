"""cmake --install into a prefix that is then moved: the program, its batch scripts and its module file work from there."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from trainer import MPIEXEC, clean_environment  # noqa: E402

TINY = ROOT / "configs" / "examples" / "tiny"


def module_program():
    """A shell command that loads a module file, and what it is called; nothing where there is neither."""
    for script, name in (("/usr/share/lmod/lmod/init/bash", "lmod"), ("/usr/share/modules/init/bash", "environment-modules")):
        if os.path.exists(script):
            return f". {script}", name
    return None, None


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="install-")
        first, cls.prefix = pathlib.Path(cls.folder.name) / "first", pathlib.Path(cls.folder.name) / "moved" / "ringshard"
        subprocess.run([os.environ["CMAKE"], "--install", os.environ["BUILD"], "--prefix", str(first), "--component", "program"],
                       check=True, capture_output=True)
        cls.prefix.parent.mkdir()
        shutil.move(first, cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def do(self, *command, **variables):
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=self.folder.name, timeout=120,
                                env=clean_environment(**variables))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def test_it_trains_from_where_it_was_moved(self):
        trainer = self.prefix / "bin" / "trainer"
        self.assertRegex(self.do(trainer, "--version"), r"^ringshard \d+\.\d+\.\d+")
        self.do(trainer, "init", "--config_json", TINY / "config.json", "--output_dir", "model")
        said = self.do(MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", 2, trainer, "--profile", "zero3", "--cp_size", 2,
                       "--model_name_or_path", "model", "--dataset_name", TINY / "notes.jsonl", "--max_steps", 2,
                       "--output_dir", "run")
        self.assertIn("done: step 2", said)

    def test_nothing_of_ours_is_taken_from_the_build(self):
        for name in ("trainer", "libringshard_engine.so"):
            paths = self.do("readelf", "-d", self.prefix / "lib" / "ringshard" / name)
            runpath = next(line for line in paths.splitlines() if "RUNPATH" in line or "RPATH" in line)
            self.assertIn("$ORIGIN", runpath)
            self.assertNotIn(os.environ["BUILD"], runpath)

    def test_the_batch_scripts_find_the_program(self):
        shared = self.prefix / "share" / "ringshard"
        for name in ("slurm/job.sh", "slurm/train_8node.sh", "slurm/sites/generic.env", "configs/examples/tiny/notes.jsonl",
                     "docs/slurm.md", "LICENSE"):
            self.assertTrue((shared / name).is_file(), name)
        self.assertTrue(os.access(shared / "trainer", os.X_OK))
        said = self.do("bash", "-c", f". '{shared}/slurm/job.sh' && begin_attempt --output_dir run && echo out is $out",
                       RINGSHARD_ROOT=str(shared), SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES="1", SLURM_CPUS_ON_NODE="2",
                       SLURM_SUBMIT_DIR=self.folder.name)
        self.assertIn("out is ", said)

    def test_the_module_file_finds_its_prefix(self):
        load, name = module_program()
        if load is None:
            self.skipTest("neither lmod nor environment-modules is installed (apt-get install environment-modules)")
        said = self.do("bash", "-c", f"{load}; module use '{self.prefix}/share/modulefiles' && module load ringshard && "
                       "trainer version && echo root is $RINGSHARD_ROOT && echo pages are in $MANPATH", MANPATH="/of/mine")
        self.assertIn("ringshard ", said, name)
        self.assertIn(f"root is {self.prefix}/share/ringshard", said)
        self.assertIn(f"{self.prefix}/share/man:", said.partition("pages are in ")[2])
        self.assertIn(":/of/mine:", said.partition("pages are in ")[2])  # the empty entry is the system's path

    def test_the_manual_page_and_the_completion(self):
        self.assertIn(".TH", (self.prefix / "share" / "man" / "man1" / "trainer.1").read_text())
        self.assertIn("complete ", (self.prefix / "share" / "bash-completion" / "completions" / "trainer").read_text())


class OffDebian(unittest.TestCase):
    """A machine without root and dpkg: scripts/setup and CMake name what is needed, and the way to it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="clone-")
        self.addCleanup(folder.cleanup)
        self.clone = pathlib.Path(folder.name)
        (self.clone / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "setup", self.clone / "scripts")
        python = self.clone / ".deps" / "venv" / "bin" / "python"  # has every wheel
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\nexit 0\n")
        python.chmod(0o755)
        self.programs = self.clone / "programs"
        self.programs.mkdir()

    def setup(self, *arguments):
        return subprocess.run(["bash", str(self.clone / "scripts" / "setup"), *arguments], capture_output=True, text=True,
                              env={"PATH": str(self.programs)})

    def link(self, *names):
        for name in names:
            (self.programs / name).symlink_to(shutil.which(name))

    def test_setup_without_dpkg_names_packages_and_modules(self):
        self.link("bash", "dirname", "grep", "id")
        result = self.setup()
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("dnf install gcc-toolset-13-gcc-c++", "hdf5-openmpi-devel", "module avail", "CMAKE_PREFIX_PATH"):
            self.assertIn(words, result.stderr)
        self.assertIn("ready: cmake", result.stdout)

    def test_wheels_only_asks_neither_dpkg_nor_apt(self):
        self.link("bash", "dirname", "grep")
        for name in ("dpkg-query", "apt-get", "sudo"):
            (self.programs / name).write_text(f"#!/bin/sh\necho {name} was called >&2\nexit 1\n")
            (self.programs / name).chmod(0o755)
        result = self.setup("--wheels-only")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_cmake_names_both_folders(self):
        for file in ("LibTorch.cmake", "Arrow.cmake"):
            result = subprocess.run([os.environ["CMAKE"], f"-DPROJECT_SOURCE_DIR={self.clone}", "-P", str(ROOT / "cmake" / file)],
                                    capture_output=True, text=True)
            self.assertNotEqual(result.returncode, 0)
            said = " ".join(result.stderr.split())
            for words in ("scripts/setup --wheels-only", "-DRINGSHARD_TORCH_DIR=/", "-DRINGSHARD_ARROW_DIR=/"):
                self.assertIn(words, said, file)


if __name__ == "__main__":
    unittest.main()

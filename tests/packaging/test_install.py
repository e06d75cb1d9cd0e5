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
                       "trainer version && echo root is $RINGSHARD_ROOT")
        self.assertIn("ringshard ", said, name)
        self.assertIn(f"root is {self.prefix}/share/ringshard", said)


if __name__ == "__main__":
    unittest.main()

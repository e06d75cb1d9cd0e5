"""A SLURM cluster for the tests of this folder, and jobs on it. Where there cannot be one the tests are skipped."""

import os
import re
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.join(FOLDER, "..", "..")
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import MPIEXEC, PATIENCE, TRAINER, TrainerTest, clean_environment, read_metrics, read_steps, run  # noqa: E402, F401

DATA = os.path.join(FOLDER, "..", "parity", "data")
SKIPPED = 77
UNAVAILABLE = 69
TINY = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"),
        "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false",
        "--learning_rate", "0.002", "--max_length", "48", "--logging_steps", "1", "--full_determinism"]
# Four ranks on two nodes, with everything cut.
FOUR_RANKS = ["--profile", "zero3", "--sp_size", "2", "--per_device_train_batch_size", "4"]


class Cluster:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="slurm-test-")
        self.script = [sys.executable, os.path.join(REPOSITORY, "scripts", "slurm-cluster"), "--dir", self.folder]
        leash, self.leash = os.pipe()  # the cluster and its folder end with this process, however that ends
        up = subprocess.run([*self.script, "--until-eof", "up"], stdin=leash, capture_output=True, text=True)
        os.close(leash)
        if up.returncode == UNAVAILABLE:
            os.rmdir(self.folder)
            print(f"skipped: {up.stderr}")
            sys.exit(SKIPPED)
        assert up.returncode == 0, up.stderr
        self.root = self.path("root")
        os.makedirs(self.root)
        os.symlink(TRAINER, os.path.join(self.root, "trainer"))
        for name in ("slurm", "configs"):
            os.symlink(os.path.abspath(os.path.join(REPOSITORY, name)), os.path.join(self.root, name))

    def path(self, *names):
        return os.path.join(self.folder, "files", *names)

    def down(self):
        subprocess.run([*self.script, "down"])
        os.close(self.leash)

    def do(self, *words, timeout=120, **variables):
        """scripts/slurm-cluster WORDS, in the root that the batch scripts expect."""
        return subprocess.run([*self.script, *words], capture_output=True, text=True, timeout=timeout * PATIENCE, cwd=self.root,
                              env=clean_environment(**variables))

    def run(self, *command, **more):
        return self.do("run", *command, **more)

    def wrap_trainer(self, lines):
        """From now on the batch scripts start a shell script that ends by becoming the trainer."""
        self.unwrap_trainer()
        path = os.path.join(self.root, "trainer")
        os.remove(path)
        with open(path, "w") as file:
            file.write(f"#!/bin/bash\n{lines}\nexec {TRAINER} \"$@\"\n")
        os.chmod(path, 0o755)

    def unwrap_trainer(self):
        path = os.path.join(self.root, "trainer")
        os.remove(path)
        os.symlink(TRAINER, path)


class Job:
    """A batch job and its output_dir."""

    def __init__(self, cluster, name, *arguments, script="slurm/train_8node.sh", flags=("--nodes", "2"), **variables):
        self.cluster = cluster
        self.out = cluster.path(name)
        self.log = cluster.path(name + ".log")
        result = cluster.run("sbatch", "--parsable", "--output", self.log, *flags, script, *TINY, "--output_dir",
                             self.out, *arguments, **variables)
        assert result.returncode == 0, result.stderr
        self.id = result.stdout.strip()

    @classmethod
    def of(cls, cluster, id, out, log):
        """A job that somebody else submitted."""
        job = cls.__new__(cls)
        job.cluster, job.id, job.out, job.log = cluster, id, out, log
        return job

    def show(self):
        text = self.cluster.run("scontrol", "show", "job", "--oneliner", self.id).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def said(self):
        try:
            with open(self.log, newline="") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def story(self):
        """What was said, without the steps."""
        return "\n".join(line for line in self.said().splitlines() if not line.startswith("step "))

    def steps_done(self):
        try:
            return len(read_steps(self.out))
        except (FileNotFoundError, ValueError):
            return 0

    def wait_until(self, is_so, seconds):
        deadline = time.monotonic() + seconds * PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, f"waited {seconds * PATIENCE} s in vain\n{self.show()}\n{self.story()}"
            time.sleep(0.1)

    def wait_for_step(self, step, seconds=90):
        self.wait_until(lambda: self.steps_done() >= step, seconds)

    def wait_for_words(self, words, seconds=90):
        self.wait_until(lambda: words in self.said(), seconds)

    def wait_for_end(self, seconds=150):
        """Waits until the job has ended for good; its exit code."""
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        state = {}

        def has_ended():
            time.sleep(0.3)
            state.update(self.show())
            return state["JobState"] in ended
        self.wait_until(has_ended, seconds)
        return int(state["ExitCode"].split(":")[0])


class SlurmTest(TrainerTest):
    """Every test finds the cluster idle, with the trainer as it is."""
    cluster = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def tearDown(self):
        self.cluster.unwrap_trainer()
        self.cluster.run("scancel", "--user", "root")
        deadline = time.monotonic() + 40 * PATIENCE
        while self.cluster.run("squeue", "--noheader").stdout.strip() and time.monotonic() < deadline:
            time.sleep(0.3)

    def reference(self, name, *arguments, ranks):
        """The same run without SLURM and without interruption."""
        out = self.cluster.path(name)
        result = run(*TINY, *arguments, "--output_dir", out, ranks=ranks, timeout=600)
        self.expect(result, 0)
        return out

    def expect_curve(self, out, reference, relative=0.0):
        ours, whole = read_steps(out), read_steps(reference)
        self.assertEqual([line["step"] for line in ours], [line["step"] for line in whole])
        for a, b in zip(ours, whole):
            for key in ("loss", "grad_norm"):
                self.assertLessEqual(abs(a[key] - b[key]), relative * abs(b[key]), (a["step"], key))

    def expect_one_line_of_ours(self, text, *words):
        lines = [line for line in text.splitlines() if line.startswith("trainer: ")]
        self.assertEqual(len(lines), 1, text)
        for word in words:
            self.assertIn(word, lines[0])

    def checkpoint_step(self, out):
        with open(os.path.join(out, "latest")) as file:
            return int(re.fullmatch(r"checkpoint-(\d+)", file.read().strip())[1])

"""Runs ./trainer for the tests of this folder."""

import gzip
import json
import os
import subprocess
import tempfile
import unittest

TRAINER = os.environ["TRAINER"]
MPIEXEC = os.environ.get("MPIEXEC", "mpirun")
PATIENCE = int(os.environ.get("PATIENCE", "1"))  # times longer than usual that the program may take: sanitizers slow it down
ALL_CASES = "ALL_CASES" in os.environ  # the long suite; scripts/test runs those cases that meet every part of the program once
in_long_suite = unittest.skipUnless(ALL_CASES, "of the long suite: other cases meet the same parts, beside others")
HF_HOME = tempfile.TemporaryDirectory()  # so that prepared data of other runs is not met


def some_of(cases):
    """Every second of cases that differ in a choice alone; the long suite takes all."""
    return cases if ALL_CASES else cases[::2]


def clean_environment(**variables):
    environment = {k: v for k, v in os.environ.items()
                   if k == "RINGSHARD_TEST_INSTRUCTIONS" or not k.startswith(("RINGSHARD_", "SLURM_"))}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1",
                       OMPI_MCA_mpi_yield_when_idle="1", HF_HOME=HF_HOME.name)  # other tests may run beside
    environment.update(variables)
    return environment


def run(*arguments, ranks=None, stdin="", cwd=None, timeout=120, preexec_fn=None, **variables):
    """Runs the program, under mpirun if a number of ranks is given."""
    command = [TRAINER, *arguments]
    if ranks is None:
        variables.setdefault("OMPI_MCA_ess_singleton_isolated", "1")  # a process alone starts no daemon of Open MPI: a tenth of a second
        variables.setdefault("OMPI_MCA_orte_create_session_dirs", "0")  # these would all have one folder, and two meet while they make it
    else:
        command = [MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=cwd, timeout=timeout * PATIENCE,
                          preexec_fn=preexec_fn, env=clean_environment(**variables))


def ranks_of(launcher):
    """The processes that mpirun started, by the parent that the kernel names."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                if name.isdigit() and int(file.read().rsplit(")", 1)[1].split()[1]) == launcher.pid:
                    found.append(int(name))
        except (OSError, ValueError, IndexError):
            pass
    return sorted(found)


def read_json(*path):
    """The content of a file, which is packed by gzip if its name ends with .gz."""
    path = os.path.join(*path)
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as file:
        return json.load(file)


def read_metrics(output):
    """All whole lines: of steps, of evaluations, of the end. A program that runs may be writing another one."""
    with open(os.path.join(output, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def read_steps(output):
    return [line for line in read_metrics(output) if "loss" in line]


class TrainerTest(unittest.TestCase):
    maxDiff = None

    def expect(self, result, exit_code, *words, stream="stderr"):
        self.assertEqual(result.returncode, exit_code, result.stderr + result.stdout)
        for word in words:
            self.assertIn(word, getattr(result, stream))

    def expect_one_message(self, result, exit_code, *words):
        """One message of one rank, whatever mpirun adds to it."""
        self.expect(result, exit_code, *words)
        lines = [line for line in result.stderr.splitlines() if line.startswith("trainer: ")]
        self.assertEqual(len(lines), 1, result.stderr)


class FolderTest(TrainerTest):
    """Tests that share a temporary folder."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

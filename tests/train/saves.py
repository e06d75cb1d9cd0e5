"""For tests of saves: a short run, its checkpoints, and the lines that saves leave."""

import glob
import os
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import MPIEXEC, PATIENCE, TRAINER, TrainerTest, clean_environment, read_metrics, read_steps, run  # noqa: E402, F401

DATA = os.path.join(FOLDER, "..", "parity", "data")
COMMON = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"),
          "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false",
          "--max_length", "48", "--per_device_train_batch_size", "2", "--logging_steps", "1", "--full_determinism"]
SHORT = [*COMMON, "--max_steps", "8", "--save_steps", "2"]


def read_saves(output):
    return [line for line in read_metrics(output) if "save_step" in line]


def checkpoints(output):
    return sorted(int(name.removeprefix("checkpoint-")) for name in os.listdir(output) if
                  name.startswith("checkpoint-") and name.removeprefix("checkpoint-").isdigit())


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds * PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.02)


class SavesTest(TrainerTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = os.path.join(self.folder.name, "out")

    def start(self, *arguments, ranks=None, **variables):
        command = [TRAINER, *arguments]
        if ranks is not None:
            command = [MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
        return subprocess.Popen(command, env=clean_environment(**variables), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def expect_nothing_half_done(self):
        self.assertEqual(glob.glob(os.path.join(self.output, "*.tmp-*")), [])
        for step in checkpoints(self.output):
            self.expect(run("inspect", os.path.join(self.output, f"checkpoint-{step}")), 0)

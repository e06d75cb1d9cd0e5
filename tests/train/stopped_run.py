"""A whole run with a checkpoint in its middle, for tests that go on from there: what several test files share."""

import os
import shutil
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
MODEL = os.path.join(DATA, "models", "qwen2-tiny")
ROWS = os.path.join(DATA, "rows", "pretokenized.jsonl")
# fp32 files and bf16 in memory: the program reads again what it writes.
COMMON = ["--dataset_name", ROWS, "--bf16", "true", "--learning_rate", "2e-3", "--max_length", "48", "--max_steps", "6",
          "--logging_steps", "1", "--save_steps", "3", "--full_determinism"]
CUT = ["--profile", "zero3", "--cp_size", "2", "--per_device_train_batch_size", "4"]


class StoppedRunTest(TrainerTest):
    CHOICE = []  # flags that choose what is trained

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "model")
        shutil.copytree(MODEL, cls.model)
        cls.whole = os.path.join(cls.folder.name, "whole")
        whole = cls.train(cls.whole, *CUT, "--save_model_in_checkpoints", "true", ranks=2)
        assert whole.returncode == 0, whole.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def train(cls, output, *flags, choice=None, model=None, ranks=None, **variables):
        return run("train", *COMMON, "--model_name_or_path", model or cls.model, *(cls.CHOICE if choice is None else choice), *flags,
                   "--output_dir", output, ranks=ranks, **variables)

    def path(self, name):
        return os.path.join(self.folder.name, self.id(), name)

    def stopped_at_3(self, name="out"):
        output = self.path(name)
        shutil.copytree(self.whole, output)
        shutil.rmtree(os.path.join(output, "checkpoint-6"))
        return output

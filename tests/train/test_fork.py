"""trainer fork: a run that begins from a checkpoint of another one, whatever happens to either of them."""

import json
import os
import shutil
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
OURS = ["train", "--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--dataset_name",
        os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false", "--learning_rate", "0.002", "--lr_scheduler_type", "constant",
        "--max_length", "48", "--per_device_train_batch_size", "2", "--save_steps", "2", "--logging_steps", "1"]


def losses(output):
    return {line["step"]: line["loss"] for line in read_metrics(output) if "loss" in line}


class Fork(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        cls.original = os.path.join(cls.made.name, "parent")
        result = run(*OURS, "--max_steps", "6", "--output_dir", cls.original)
        assert result.returncode == 0, result.stderr

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.parent, self.child = (os.path.join(folder.name, name) for name in ("parent", "child"))
        shutil.copytree(self.original, self.parent)

    def fork(self, *flags, **variables):
        return run("fork", self.parent, "--output_dir", self.child, *flags, **variables)

    def test_it_goes_on_as_the_parent_did_to_the_bit(self):
        self.expect(self.fork("--step", "2"), 0, "resuming from " + os.path.join(self.parent, "checkpoint-2"))
        self.assertEqual(losses(self.child), losses(self.parent))  # with the lines of the parent before it
        with open(os.path.join(self.child, "parent.json")) as file:
            self.assertEqual(json.load(file), {"checkpoint": os.path.join(self.parent, "checkpoint-2"), "step": 2})
        page = os.path.join(os.path.dirname(self.child), "page.html")
        self.expect(run("report", self.child, "--output", page), 0)
        with open(page) as file:
            self.assertIn("began from " + os.path.join(self.parent, "checkpoint-2"), file.read())

    def test_what_differs_is_named_and_used_on_two_ranks_too(self):
        result = self.fork("--step", "4", "--learning_rate", "0.02", "--max_steps", "8", "--cp_size", "2", ranks=2)
        self.expect(result, 0, "learning_rate: 0.002 then, 0.02 now")
        ours, theirs = losses(self.child), losses(self.parent)
        self.assertAlmostEqual(ours[5], theirs[5], delta=1e-5)  # made before the first update
        self.assertGreater(abs(ours[6] - theirs[6]), 1e-4)
        self.assertEqual(sorted(ours), list(range(1, 9)))

    def test_the_newest_checkpoint_without_a_step(self):
        self.expect(self.fork("--max_steps", "7"), 0, "checkpoint-6")
        self.assertEqual(sorted(losses(self.child)), list(range(1, 8)))

    def test_a_killed_one_begins_from_the_parent_which_keeps_its_checkpoint_that_long(self):
        self.expect(self.fork("--step", "2", RINGSHARD_FAULT="step:2:kill"), -9)
        more = ["--output_dir", self.parent, "--save_total_limit", "1", "--allow_changed", "true"]
        self.expect(run(*OURS, *more, "--max_steps", "8"), 0)
        kept = lambda: sorted(name for name in os.listdir(self.parent) if name.startswith("checkpoint-"))  # noqa: E731
        self.assertEqual(kept(), ["checkpoint-2", "checkpoint-8"])
        self.expect(self.fork("--step", "2", "--max_steps", "7", RINGSHARD_FAULT="step:5:kill"), -9, "checkpoint-2")
        self.expect(run(*OURS, *more, "--max_steps", "10"), 0)
        self.assertEqual(kept(), ["checkpoint-10"])  # the fork has checkpoints of its own
        shutil.rmtree(self.parent)  # and needs nothing of its parent any more
        os.makedirs(self.parent)
        self.expect(self.fork("--step", "2", "--max_steps", "7"), 0, "resuming from " + os.path.join(self.child, "checkpoint-"))
        self.expect(self.fork("--step", "4", "--max_steps", "7"), 78, "which began from " + os.path.join(self.parent, "checkpoint-2"))
        ours, theirs = losses(self.child), losses(self.original)
        self.assertEqual({step: ours[step] for step in theirs}, theirs)

    def test_what_cannot_be(self):
        self.expect(self.fork("--step", "3"), 66, "no whole checkpoint of step 3; it has 6, 4, 2")
        self.expect(run("fork", self.parent), 78, "output_dir is not set")
        self.expect(run("fork", self.parent, "--output_dir", self.parent), 78, "is the run to begin from")
        self.expect(run("fork", "--step", "2"), 64, "name the run to begin from")
        self.expect(self.fork("--config", "run.yaml"), 64, "--config: a fork has the settings of the run")
        self.expect(run("fork", self.child, "--output_dir", self.parent), 78, "holds another run, which did not begin as a fork")
        self.expect(run("fork", self.child, "--output_dir", self.child + "-2"), 66, "there is no such folder")
        self.expect(self.fork("--step", "two"), 64, "is no whole number")
        self.expect(run("fork", os.path.join(self.parent, "checkpoint-2"), "--output_dir", self.child), 66,
                    "is a checkpoint; give the folder of its run, and --step")
        self.assertFalse(os.path.exists(self.child))
        self.expect(self.fork("--step", "2", "--optim", "sgd"), 78, "has the moments of another optimizer (optim: ")


if __name__ == "__main__":
    unittest.main()

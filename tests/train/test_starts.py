"""Starts beside a job that runs in the same output_dir: none of them ends it, unless somebody asks for that."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import PATIENCE, TRAINER, TrainerTest, clean_environment, read_metrics, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
MODEL = os.path.join(DATA, "models", "qwen2-tiny")
COMMON = ["train", "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false", "--learning_rate", "0.002",
          "--max_length", "48", "--per_device_train_batch_size", "2", "--max_steps", "4", "--save_steps", "2", "--logging_steps", "1"]
OURS = [*COMMON, "--model_name_or_path", MODEL]
NEW = ["--take_over", "true"]


class Starts(TrainerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(self.folder, "trainer_output")  # the default
        self.go_on = os.path.join(self.folder, "go-on")

    def begin(self, fault, until, *flags, **variables):
        """A job that stands still at `fault` until it may go on."""
        self.job = subprocess.Popen([TRAINER, *OURS, *flags], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                    env=clean_environment(RINGSHARD_FAULT=fault, RINGSHARD_TEST_GO_ON=self.go_on, **variables))
        self.addCleanup(self.job.kill)
        end = time.monotonic() + 60 * PATIENCE
        while not os.path.exists(os.path.join(self.output, until)):
            self.assertLess(time.monotonic(), end, "it never came about")
            self.assertIsNone(self.job.poll())
            time.sleep(0.02)

    def start(self, *command, **variables):
        return run(*command, cwd=self.folder, **variables)

    def expect_job_ends_with(self, code, *words):
        open(self.go_on, "w").close()
        _, said = self.job.communicate(timeout=60 * PATIENCE)
        self.assertEqual(self.job.returncode, code, said)
        for word in words:
            self.assertIn(word, said)

    def attempts(self):
        return sorted(name for name in os.listdir(self.output) if name.startswith("attempt-"))

    def model(self, name):
        copy = os.path.join(self.folder, name)
        shutil.copytree(MODEL, copy)
        return copy

    def test_a_start_that_fails_ends_no_job(self):
        incomplete, spoilt = self.model("incomplete"), self.model("spoilt")
        os.remove(os.path.join(incomplete, "model.safetensors"))
        with open(os.path.join(spoilt, "model.safetensors"), "r+b") as file:
            header = int.from_bytes(file.read(8), "little")
            place = 8 + header + json.loads(file.read(header))["model.norm.weight"]["data_offsets"][0]
            file.seek(place)
            file.write(b"\xff" * 4)  # NaN, in every type

        self.begin("step:1:stall", "run.json")
        who = f"output_dir = trainer_output [default]: attempt 1 of a run is at work there: rank 0 on {os.uname().nodename}, process {self.job.pid}"
        for name, code, words, command, variables in (
            ("the same again", 78, (who, "say --take_over true"), OURS, {}),
            ("another run", 78, (who, "learning_rate: 0.002 there, 5e-04 here", "Name another output_dir"),
             [*OURS, "--learning_rate", "0.0005"], {}),
            ("another run that takes over", 78, (who, "learning_rate: 0.002 there, 5e-04 here"),
             [*OURS, "--learning_rate", "0.0005", *NEW], {}),
            # All of these could claim the attempt, and fail before they do.
            ("an unknown setting", 78, ("there is no setting of this name",), [*OURS, *NEW, "--lernrate", "1"], {}),
            ("unknown data", 66, (), [*OURS, *NEW, "--dataset_name", "no/such.jsonl"], {}),
            ("a missing shard", 66, ("model.safetensors",), [*COMMON, *NEW, "--model_name_or_path", incomplete], {}),
            ("weights that are NaN", 65, ("model.norm.weight",), [*COMMON, *NEW, "--model_name_or_path", spoilt], {}),
            ("a missing checkpoint", 66, ("there is no such folder",), [*OURS, *NEW, "--resume_from_checkpoint", "trainer_output/checkpoint-999"], {}),
            ("a run that has none", 66, ("holds no finished checkpoint",), [*OURS, *NEW, "--resume_from_checkpoint", "true"], {}),
            ("a missing folder for state", 66, ("/nonexistent",),
             [*OURS, *NEW, "--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", "/nonexistent"], {}),
            ("a plan that does not fit", 78, ("a step takes",), [*OURS, *NEW], {"RINGSHARD_TEST_DEVICE_MEMORY": "1000"}),
            ("killed for memory", -signal.SIGKILL, (), [*OURS, *NEW], {"RINGSHARD_FAULT": "claim:1:kill"}),
        ):
            with self.subTest(name):
                self.expect(self.start(*command, **variables), code, *words)
                self.assertEqual(self.attempts(), ["attempt-1"])
        self.expect_job_ends_with(0)
        self.assertEqual([line["step"] for line in read_steps(self.output)], [1, 2, 3, 4])
        self.expect(self.start(*OURS), 0, "this run is complete")  # nobody is at work any more

    def test_a_start_that_is_asked_to_takes_over(self):
        self.begin("step:3:stall", "checkpoint-2/manifest.json")
        self.expect(self.start(*OURS, *NEW), 0, "resuming from trainer_output/checkpoint-2")
        self.expect_job_ends_with(79, "attempt 2 of this run has begun")

    def test_of_three_that_take_over_at_once_one_goes_on(self):
        self.begin("step:3:stall", "checkpoint-2/manifest.json")
        starts = [subprocess.Popen([TRAINER, *OURS, *NEW], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=clean_environment(RINGSHARD_FAULT="claim:1:stall", RINGSHARD_TEST_GO_ON=self.go_on)) for _ in range(3)]
        for start in starts:
            self.addCleanup(start.kill)
            while "resuming from" not in (line := start.stderr.readline()):
                self.assertNotEqual(line, "")
        open(self.go_on, "w").close()
        said = [start.communicate(timeout=60 * PATIENCE)[1] for start in (self.job, *starts)]
        codes = [start.returncode for start in (self.job, *starts)]
        self.assertIn(0, codes, said)
        self.assertLessEqual(set(codes), {0, 79}, said)  # one that begins late finds the run complete
        self.assertEqual([line["step"] for line in read_steps(self.output)], [1, 2, 3, 4])

    def test_a_requeued_job_follows_itself_at_once(self):
        job = {"SLURM_JOB_ID": "7"}
        self.begin("step:3:stall", "checkpoint-2/manifest.json", "--resume_from_checkpoint", "never", **job)
        self.expect(self.start(*OURS, SLURM_JOB_ID="8", SLURM_RESTART_COUNT="1"), 78, ", SLURM job 7")
        again = self.start(*OURS, "--resume_from_checkpoint", "never", SLURM_RESTART_COUNT="1", **job)
        self.expect(again, 0, "resuming from trainer_output/checkpoint-2")
        self.expect_job_ends_with(79, "attempt 2 of this run has begun")

    def test_what_a_replaced_job_saves_while_the_next_one_loads(self):
        self.begin("step:3:stall", "checkpoint-2/manifest.json")
        first, waits = self.job, self.go_on
        self.go_on = os.path.join(self.folder, "go-on-too")
        second = subprocess.Popen([TRAINER, *OURS, *NEW], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env=clean_environment(RINGSHARD_FAULT="claim:1:stall", RINGSHARD_TEST_GO_ON=self.go_on))
        self.addCleanup(second.kill)
        said = ""
        while "resuming from" not in said:
            said = second.stderr.readline()
            self.assertNotEqual(said, "")
        self.assertIn("checkpoint-2", said)
        open(waits, "w").close()
        _, words = first.communicate(timeout=60 * PATIENCE)
        self.assertEqual(first.returncode, 0, words)
        self.job = second
        self.expect_job_ends_with(0, "resuming from trainer_output/checkpoint-4", "this run is complete")
        self.assertEqual({line["attempt"] for line in read_metrics(self.output)}, {1})

    def test_a_job_of_another_host_that_was_killed_long_ago(self):
        killed = self.start(*OURS, RINGSHARD_FAULT="step:3:kill")
        self.expect(killed, -signal.SIGKILL)
        alive = os.path.join(self.output, "attempt-1", "alive")
        with open(alive) as file:
            holder = json.load(file)
        with open(alive, "w") as file:
            json.dump({**holder, "pid_space": "another"}, file)
        os.utime(alive, (0, 0))
        self.expect(self.start(*OURS), 0, "done: step 4")
        self.assertEqual(self.attempts(), ["attempt-1", "attempt-2"])


if __name__ == "__main__":
    unittest.main()

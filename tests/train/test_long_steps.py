"""Steps that take long for a reason: one long row among short ones, and what such a step costs a file system."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import MPIEXEC, PATIENCE, TRAINER, TrainerTest, clean_environment, read_metrics, read_steps, run  # noqa: E402

SHIM = os.environ["FILE_SHIM"]
DATA = os.path.join(FOLDER, "..", "parity", "data")
COMMON = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--bf16", "false", "--logging_steps", "1",
          "--per_device_train_batch_size", "1", "--train_sampling_strategy", "sequential", "--save_strategy", "no"]

IMPATIENT = {"RINGSHARD_TEST_SHORTEST_LIMIT_S": "1"}


class LongStepsTest(TrainerTest):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.output = os.path.join(self.folder, "out")

    def write_rows(self, *lengths):
        """A file with rows of so many tokens."""
        name = os.path.join(self.folder, "rows.jsonl")
        with open(name, "w") as file:
            file.writelines(json.dumps({"input_ids": [i % 400 for i in range(length)]}) + "\n" for length in lengths)
        return name


class LongRows(LongStepsTest):
    """The limit of a step is ten times as long as its operations took before. Here no automatic limit is shorter than 1 s."""

    LONG = 8000

    def setUp(self):
        super().setUp()
        self.rows = self.write_rows(*[32] * 7, self.LONG, *[32] * 2)

    def arguments(self):
        return ["train", *COMMON, "--dataset_name", self.rows, "--max_length", str(self.LONG), "--max_steps", "10",
                "--output_dir", self.output]

    def train(self, *flags, **variables):
        return run(*self.arguments(), *flags, **IMPATIENT, **variables)

    def test_one_among_short_ones(self):
        self.expect(self.train(), 0)
        steps = read_steps(self.output)
        self.assertEqual([line["step"] for line in steps], list(range(1, 11)))
        self.assertEqual(steps[7]["num_tokens"] - steps[6]["num_tokens"], self.LONG)

    def test_a_pause_in_its_step(self):
        """It is longer than the limit of other steps, and shorter than that of this one."""
        go_on = os.path.join(self.folder, "go-on")
        with subprocess.Popen([TRAINER, *self.arguments()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env=clean_environment(RINGSHARD_FAULT="compute:8:stall", RINGSHARD_TEST_GO_ON=go_on, **IMPATIENT)) as job:
            while job.poll() is None and not (os.path.exists(self.output + "/metrics.jsonl") and len(read_steps(self.output)) == 7):
                time.sleep(0.05)
            time.sleep(8)
            open(go_on, "w").close()
            said = job.communicate(timeout=60 * PATIENCE)[1]
        self.assertEqual(job.returncode, 0, said)

    def test_a_pause_in_another_step(self):
        stalled = self.train(RINGSHARD_FAULT="compute:7:stall", RINGSHARD_TEST_GO_ON=os.path.join(self.folder, "never"))
        self.expect_one_message(stalled, 77, f"training is stalled: rank 0 on {socket.gethostname()} has made no progress for ",
                                " at: step 7, forward and backward", "no rank waits for another", "(hang_timeout_s sets another one)",
                                os.path.join(self.output, "attempt-1", "hang-rank<r>.txt"))
        self.assertNotIn("come to", stalled.stderr)

    def test_in_an_evaluation(self):
        evaluated = os.path.join(self.folder, "evaluated.jsonl")
        os.rename(self.rows, evaluated)
        self.write_rows(*[32] * 10)
        self.expect(self.train("--eval_strategy", "steps", "--eval_steps", "10", "--eval_dataset_name", evaluated,
                               "--per_device_eval_batch_size", "1"), 0)
        self.assertEqual(len([line for line in read_metrics(self.output) if "eval_loss" in line]), 1)


class SlowDisks(LongStepsTest):
    """Outside of steps a rank may be without a byte read or written for an hour, which is two seconds here."""

    def train(self, fault, delay="0"):
        return run("train", *COMMON, "--dataset_name", self.write_rows(*[32] * 4), "--max_steps", "2", "--output_dir", self.output,
                   "--save_strategy", "steps", "--save_steps", "2", RINGSHARD_TEST_OTHER_LIMIT_S="2", RINGSHARD_FAULT=fault,
                   RINGSHARD_TEST_DELAY_MS=delay, RINGSHARD_TEST_GO_ON=os.path.join(self.folder, "never"))

    def test_a_save_that_is_waited_for(self):
        """It takes several times as long as the limit, and no range of it does."""
        self.expect(self.train("save:write:*:delay", "200"), 0)
        save = [line for line in read_metrics(self.output) if "save_s" in line][0]
        self.assertGreater(save["save_s"], 4)

    def test_a_model_that_is_not_written(self):
        self.expect_one_message(self.train("export:1:stall"), 77, "training is stalled: rank 0 on ",
                                " has made no progress for ", " at: step 2, writing the model")


class FileOperations(LongStepsTest):
    """Rank 1 stands still in step 2 of a run with fifty attempts before it. One second here is what half a minute is in a run:
    the time between two questions about a newer attempt."""

    OWN, NEXT = "attempt-51", "attempt-52"

    def setUp(self):
        super().setUp()
        self.go_on = os.path.join(self.folder, "go-on")
        for attempt in range(1, 51):
            os.makedirs(os.path.join(self.output, f"attempt-{attempt}"))
            with open(os.path.join(self.output, f"attempt-{attempt}", "start.json"), "w") as file:
                file.write('{"step": 0}')
            with open(os.path.join(self.output, f"attempt-{attempt}", "end.json"), "w") as file:
                file.write('{"ended": "complete"}')
        command = [MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", "3", TRAINER, "train", *COMMON,
                   "--dataset_name", self.write_rows(*[32] * 12), "--max_steps", "3", "--profile", "zero3",
                   "--output_dir", self.output]
        environment = clean_environment(
            LD_PRELOAD=SHIM, FILE_SHIM_FOLDER=self.output, FILE_SHIM_LOG=os.path.join(self.folder, "log"),
            RINGSHARD_FAULT="compute:2:stall@1", RINGSHARD_TEST_GO_ON=self.go_on, RINGSHARD_TEST_ASK_EVERY_S="1")
        with open(os.path.join(self.folder, "said"), "w") as said:
            self.job = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=said)
        self.addCleanup(self.job.wait)
        self.addCleanup(self.job.terminate)
        self.wait_for(lambda: self.read_log(0))

    def said(self):
        with open(os.path.join(self.folder, "said")) as file:
            return file.read()

    def wait_for(self, condition):
        end = time.monotonic() + 60 * PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, self.said())
            self.assertIsNone(self.job.poll(), self.said())
            time.sleep(0.05)

    def read_log(self, rank):
        """What the rank did with names below output_dir. Of rank 0, since it wrote the first line of metrics."""
        try:
            with open(os.path.join(self.folder, f"log.{rank}")) as file:
                done = [line.strip() for line in file if not line.startswith("read ")]
        except FileNotFoundError:
            done = []
        logged = [i for i, line in enumerate(done) if line.startswith("open ") and line.endswith("/metrics.jsonl")]
        return done if rank > 0 else done[logged[0]:] if logged else []

    def questions(self):
        return [line for line in self.read_log(0) if line.endswith(f"/{self.OWN}/owner") or line.endswith(f"/{self.NEXT}")]

    def test_one_rank_asks_now_and_then(self):
        others = [self.read_log(rank) for rank in (1, 2)]
        self.wait_for(lambda: len(self.questions()) >= 4)  # the second time
        self.assertEqual([self.read_log(rank) for rank in (1, 2)], others)
        open(self.go_on, "w").close()
        self.assertEqual(self.job.wait(60 * PATIENCE), 0, self.said())
        done = self.read_log(0)
        step = done[1:done.index(done[0], 1) + 1]  # until it wrote the second line
        self.assertGreater(len(step), 4)
        self.assertLessEqual(len(step), 12, step)
        self.assertEqual([line for line in step if line.startswith("list ")], [])

    def test_all_ranks_hear_the_answer_of_one(self):
        others = [self.read_log(rank) for rank in (1, 2)]
        os.mkdir(os.path.join(self.output, self.NEXT))
        self.assertEqual(self.job.wait(60 * PATIENCE), 79, self.said())
        lines = [line for line in self.said().splitlines() if line.startswith("trainer: ")]
        self.assertEqual(len(lines), 1, self.said())
        self.assertRegex(lines[0], r"rank 0 on .*: attempt 52 of this run has begun, and this is attempt 51; it leaves the run alone")
        self.assertEqual([self.read_log(rank) for rank in (1, 2)], others)


if __name__ == "__main__":
    unittest.main()

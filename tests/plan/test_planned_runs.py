"""Runs that follow a plan: what does not fit is refused, what is suggested can begin, and as much is kept as there is room for."""

import contextlib
import errno
import json
import os
import random
import sys
import time
import unittest

from planning import PlanTest
from devices import HOST
from trainer import read_metrics, run

questions, answers = 3, 3


def remove_group(folder):
    """The kernel lets go of a process that has ended a moment after its parent has seen it end."""
    for _ in range(100):
        try:
            return os.rmdir(folder)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            time.sleep(0.05)
    raise TimeoutError(f"{folder}: a process is still in this control group")


@contextlib.contextmanager
def memory_group(limit):
    """A function for preexec_fn: it moves a process below a control group with that limit, as SLURM does, into a group that
    has none of its own. Needs root, and a hierarchy that can be written to."""
    for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        job = os.path.join(root, f"ringshard-test-{os.getpid()}")
        step = os.path.join(job, "step")
        try:
            os.mkdir(job)
            os.mkdir(step)
            with open(os.path.join(job, file), "w") as limits:
                limits.write(str(limit))
            break
        except OSError:
            for folder in (step, job):
                if os.path.isdir(folder):
                    os.rmdir(folder)
    else:
        raise unittest.SkipTest("no control group with a memory limit can be made here")

    def join():
        with open(os.path.join(step, "cgroup.procs"), "w") as processes:
            processes.write(str(os.getpid()))

    try:
        yield join
    finally:
        for folder in (step, job):
            remove_group(folder)


class PlannedRuns(PlanTest):
    def test_what_does_not_fit_is_refused(self):
        flags = [*self.flags("zero3", 1, 1, 2048, "all", "fp32", []), "--dataset_name", self.rows(2048), "--output_dir",
                 os.path.join(self.folder.name, "never"), "--dry_run"]
        self.expect(run("train", *flags, ranks=2), 0, "plan: a rank holds at most", "dry_run: this run can begin")
        held = self.planned(flags, "--world", "2")["peak_bytes"]
        small = {"RINGSHARD_TEST_DEVICE_MEMORY": str(int(2 * held * 0.7))}  # of two ranks
        refused = run("train", *flags, ranks=2, **small)
        self.expect_one_message(refused, 78, "a step takes", "at: ", "rows of 2048 tokens", "settings that make it fit: ",
                                "--activation_policy input", "--ignore_plan starts the run anyway")
        self.expect(run("train", *flags, "--ignore_plan", ranks=2, **small), 0, "warning: a step takes")
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "never")))

    def test_the_memory_limit_of_the_job_counts(self):
        flags = [*self.flags("single_gpu", 1, 1, 16384, "all", "fp32", []), "--dataset_name", self.rows(16384), "--output_dir",
                 os.path.join(self.folder.name, "limited"), "--dry_run"]
        held = self.planned(flags)["peak_bytes"]
        self.assertGreater(held, 1 << 30)  # a process that only plans stays below the limit
        with memory_group(held // 2) as join:
            refused = run("train", *flags, preexec_fn=join)
        self.expect_one_message(refused, 78, "a step takes", "at: ", "rows of 16384 tokens")

    def test_as_much_is_kept_as_there_is_room_for(self):
        """The plan and two ranks choose the same; what blocks keep changes no loss; what was chosen can be said."""
        ends = [self.planned(self.flags("zero3", 1, 1, 1024, policy, "fp32", []), "--world", "2")["peak_bytes"]
                for policy in ("input", "all")]
        memory = int((ends[0] + 0.6 * (ends[1] - ends[0])) / 0.9)  # a tenth stays free
        device = self.device(is_host="true", memory_bytes=str(memory))
        auto = self.flags("zero3", 1, 1, 1024, "auto", "fp32", [])
        planned = self.planned(auto, "--world", "2", "--gpu", device)
        chosen = planned["activation_policy"]
        self.assertRegex(chosen, r"^all:\d,")
        said = f"activation_policy auto: {chosen[4]} of 5 blocks keep all, "
        self.expect(run("plan", *auto, "--world", "2", "--gpu", device), 0, said, f"({chosen})", stream="stdout")
        fixed = self.planned(self.flags("zero3", 1, 1, 1024, chosen, "fp32", []), "--world", "2", "--gpu", device)
        self.assertEqual(fixed, planned)
        losses = {}
        for policy in ("auto", "all", "attention"):
            case = ("zero3", 1, 1, 1024, policy, "fp32", ["--ignore_plan"])
            output, result = self.begun(2, *case, RINGSHARD_TEST_DEVICE_MEMORY=str(2 * memory))
            self.expect(result, 0, *((said, f"({chosen})") if policy == "auto" else ()))
            losses[policy] = [line["loss"] for line in read_metrics(output) if "loss" in line]
            with open(os.path.join(output, "run.json")) as file:
                record = json.load(file)
            setting = record["settings"]["activation_policy"]
            if policy == "auto":
                self.assertEqual((setting["value"], setting["origin"]), (chosen, "auto [command line]"))
                self.assertIn(f"activation_policy auto: {record['activations_kept']} ({chosen})", result.stderr)
        self.assertEqual(len(set(map(tuple, losses.values()))), 1, losses)

    def test_gpus_keep_as_much_as_there_is_room_for_unless_told(self):
        flags = ["--model_name_or_path", self.model, "--max_length", "1024", "--profile", "single_gpu"]
        for more, device, kept in (([], self.device(), "everything"), ([], self.device(is_host="true"), "attention"),
                                   (["--gradient_checkpointing", "true"], self.device(), "attention"),
                                   (["--activation_policy", "auto"], self.device(), "everything")):
            self.assertEqual(self.planned([*flags, *more], "--world", "1", "--gpu", device)["activation_policy"], kept, more)

    def test_policies_that_no_model_has(self):
        for policy, words in (("all:6,input", "names 6 blocks, and the model has 5"),
                              ("all:2,input:2", "names 4 blocks, and the model has 5: leave the last number out"),
                              ("most", "must be auto, or one of everything, all, ")):
            with self.subTest(policy):
                flags = self.flags("zero3", 1, 1, 512, policy, "fp32", [])
                self.expect_one_message(run("plan", *flags, "--gpu", HOST), 78, f"activation_policy = {policy}", words)
                self.expect_one_message(self.begun(1, "zero3", 1, 1, 512, policy, "fp32", [])[1], 78,
                                        f"activation_policy = {policy} [command line]: ", words)

    def test_what_is_suggested_can_begin(self):
        """Twenty questions and ten answers to each by hand: --questions 20."""
        draw = random.Random(7)
        for question in range(questions):
            world = draw.choice((1, 2, 4))
            length = draw.choice((256, 1024))
            flags = ["--model_name_or_path", self.model, "--max_length", str(length),
                     "--per_device_train_batch_size", str(draw.choice((1, 2, 4))), "--bf16", draw.choice(("true", "false"))]
            suggested = self.planned(flags, "--world", str(world), "--suggest")
            self.assertGreater(len(suggested), 0)
            for answer in suggested[:answers]:
                with self.subTest(question=question, world=world, flags=answer["flags"]):
                    begun = run("train", *flags, *answer["flags"].split(), "--dataset_name", self.rows(length),
                                "--output_dir", os.path.join(self.folder.name, "dry"), "--dry_run", ranks=world)
                    self.expect(begun, 0, "mesh " + answer["mesh"])


if __name__ == "__main__":
    if "--questions" in sys.argv:
        at = sys.argv.index("--questions")
        questions, answers = int(sys.argv[at + 1]), 10
        del sys.argv[at:at + 2]
    unittest.main()

"""Failures that take minutes: time limits, a node that is cut off, clocks that differ.

They are not run with the other tests:  TRAINER=$PWD/trainer python3 tests/slurm/test_failures.py
"""

import os
import shutil
import time
import unittest

from cluster import FOUR_RANKS, Job, SlurmTest

STEPS = "400"
# In place of the scripts' --signal=USR1@300: SLURM sends it up to a minute early, and this test wants none.
NO_WARNING = "--signal=URG@1"
# Late messages: a step takes a tenth of a second at least, so that the run lasts as long as a test needs.
SLOWLY = {"RINGSHARD_TEST_COMM_DELAY_US": "2000"}


class Failures(SlurmTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.arguments = [*FOUR_RANKS, "--max_steps", STEPS, "--save_steps", "20"]
        cls.whole = cls.reference(cls(), "whole", *cls.arguments, ranks=4)

    def expect_whole(self, job):
        self.assertEqual(job.wait_for_end(400), 0, job.story())
        self.expect_curve(job.out, self.whole)
        self.assertEqual(self.checkpoint_step(job.out), int(STEPS))

    def test_the_signal_that_slurm_sends(self):
        # 120 - 108: twelve seconds after its start, and again after every restart.
        job = Job(self.cluster, "signal", *self.arguments,
                  flags=("--nodes", "2", "--time", "2", "--signal=USR1@108"), **SLOWLY)
        self.expect_whole(job)
        if int(job.show()["Restarts"]) > 0:
            self.assertIn(" by SIGUSR1: checkpoint-", job.story())

    def test_a_time_limit_without_a_signal(self):
        began = time.monotonic()
        job = Job(self.cluster, "limit", *FOUR_RANKS, "--max_steps", "100000", "--save_steps", "1000",
                  flags=("--nodes", "2", "--time", "1", NO_WARNING))
        job.wait_for_words("requeued", 90)
        self.assertLess(time.monotonic() - began, 65)
        self.assertIn(" by the time limit that is near: checkpoint-", job.story())
        self.assertIn("ended with 75 after checkpoint-", job.story())
        job.wait_for_words("resuming from", 60)

    def start_with_a_rank_that_hangs(self, name, action, timeout, *flags):
        self.cluster.wrap_trainer(f'[ -z "$SLURM_RESTART_COUNT" ] && export RINGSHARD_FAULT=step:14:{action}@3\n'
                                  'export RINGSHARD_TEST_SHORTEST_LIMIT_S=60')
        return Job(self.cluster, name, *FOUR_RANKS, "--max_steps", STEPS, "--save_steps", "5", "--hang_timeout_s", timeout,
                   flags=("--nodes", "2", *flags))

    def test_a_rank_hangs_until_the_time_limit(self):
        job = self.start_with_a_rank_that_hangs("hanging", "stall", "0", "--time", "1", NO_WARNING)
        job.wait_for_words("requeued", 150)
        self.assertIn("the time is up, and ranks do not end", job.story())
        job.wait_until(lambda: job.show()["JobState"] == "PENDING", 60)
        self.cluster.run("scontrol", "update", f"jobid={job.id}", "timelimit=60")
        self.expect_whole(job)

    def test_a_rank_hangs(self):
        for action, words in (("stop", ": no heartbeat for"), ("spin", " has not reached"), ("read", " has not reached")):
            with self.subTest(action):
                began = time.monotonic()
                job = self.start_with_a_rank_that_hangs("lost-" + action, action, "10")
                job.wait_for_words("requeued", 60)
                self.assertLess(time.monotonic() - began, 45)
                self.expect_one_line_of_ours(job.story(), words)
                self.assertRegex(job.story(), "rank 3 on hn[0-9]" + words)
                self.assertRegex(job.story(), "ended with 77 after checkpoint-(5|10): requeued")
                self.expect_whole(job)

    def test_a_rank_hangs_and_nobody_said_for_how_long(self):
        job = self.start_with_a_rank_that_hangs("minute", "spin", "null")
        job.wait_for_words("requeued", 120)
        self.expect_one_line_of_ours(job.story(), " has not reached")
        self.assertRegex(job.story(), "rank 3 on hn[0-9] has")
        self.expect_whole(job)

    def test_a_link_is_dropped(self):
        # SLURM 22.05 forgets the GPUs of a job that is requeued while one of its nodes does not answer.
        job = Job(self.cluster, "link", *self.arguments, "--hang_timeout_s", "8", RANKS_PER_NODE="2", **SLOWLY)
        job.wait_for_step(45)
        self.cluster.do("cut", "hn2")
        try:
            job.wait_for_words("rank 2 on hn2, rank 3 on hn2: no heartbeat for", 30)
            job.wait_for_words("restart 1", 240)
            self.expect_whole(job)  # a node that comes back makes SLURM end the step of that number, wherever it runs
        finally:
            self.cluster.do("join", "hn2")

    def test_max_hours(self):
        job = Job(self.cluster, "hours", *FOUR_RANKS, "--max_steps", "100000", "--max_hours", "0.01")
        job.wait_for_words("requeued", 60)
        self.assertIn(" by the time limit that is near: checkpoint-", job.story())

    def test_a_node_is_cut_off(self):
        codes = self.cluster.path("codes")
        os.mkdir(codes)
        self.cluster.wrap_trainer(f'''
if [ -n "$PMIX_RANK" ]; then
    {os.environ["TRAINER"]} "$@"
    code=$?
    echo $code > {codes}/$(hostname)-$PMIX_RANK-${{SLURM_RESTART_COUNT:-0}}
    exit $code
fi''')
        job = Job(self.cluster, "cut", *self.arguments, **SLOWLY)
        job.wait_for_step(45)
        self.cluster.do("cut", "hn2")
        try:
            # The batch script runs on the first node; SLURM itself starts the job again without the second one.
            job.wait_for_words("restart 1", 240)
            self.expect_whole(job)
            zombies = [os.path.join(codes, f"hn2-{rank}-0") for rank in (2, 3)]
            job.wait_until(lambda: all(map(os.path.exists, zombies)), 60)
        finally:
            self.cluster.do("join", "hn2")
        for path in zombies:
            with open(path) as file:
                self.assertEqual(file.read().strip(), "79", job.story())

    @unittest.skipUnless(shutil.which("faketime"), "needs the package faketime")
    def test_clocks_that_differ(self):
        self.cluster.wrap_trainer('''
if [ -n "$PMIX_RANK" ]; then
    case $(hostname) in hn2) export FAKETIME=+7m ;; hn3) export FAKETIME=-7m ;; *) export FAKETIME=+0 ;; esac
    export FAKETIME_DONT_FAKE_MONOTONIC=1 LD_PRELOAD=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1)
fi''')
        job = Job(self.cluster, "clocks", *self.arguments, flags=("--nodes", "2", "--nodelist", "hn2,hn3"))
        job.wait_for_step(45)
        self.cluster.run("scancel", "--signal=USR1", job.id)
        job.wait_for_words("ended with 75 after checkpoint-")
        self.expect_whole(job)


if __name__ == "__main__":
    unittest.main()

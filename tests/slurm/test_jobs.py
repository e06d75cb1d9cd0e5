"""Jobs on a real SLURM: started unedited, stopped in time, back by themselves."""

import os
import random
import shlex
import shutil
import time
import unittest

from cluster import FOUR_RANKS, TINY, Job, SlurmTest, read_steps

# So many that a signal meets the run in the middle.
STEPS = "200"
# A job's first start is slow, with messages that come late, so that a signal meets it however busy this machine is.
SLOW_START = '[ -z "$SLURM_RESTART_COUNT$FAST" ] && export RINGSHARD_TEST_COMM_DELAY_US=2000'


class Launch(SlurmTest):
    def test_eight_nodes_unedited(self):
        layout = ["--profile", "zero3", "--max_steps", "8", "--save_steps", "4"]
        job = Job(self.cluster, "eight", *layout, "--sp_size", "2", "--per_device_train_batch_size", "1", flags=())
        reference = self.reference("one", *layout, "--per_device_train_batch_size", "8", ranks=None)
        self.assertEqual(job.wait_for_end(240), 0, job.story())
        self.assertIn("mesh 1x8x1x2 (replicate x shard x ring x ulysses): 16 ranks on 8 hosts", job.story())
        self.expect_curve(job.out, reference, 1e-5)
        self.assertLessEqual({"checkpoint-4", "checkpoint-8", "model.safetensors"}, set(os.listdir(job.out)))
        self.assertNotIn("\r", job.story())

    def srun(self, *words, **variables):
        return self.cluster.run("srun", "--nodes", "2", "--ntasks-per-node", "2", *words, **variables)

    def test_srun_inside_an_allocation(self):
        out = self.cluster.path("srun")
        result = self.cluster.run("salloc", "--nodes", "2", "--ntasks-per-node", "2", "srun", "./trainer", "--profile",
                                  "zero2", *TINY, "--max_steps", "2", "--output_dir", out)
        self.expect(result, 0, "mesh 1x4x1x1", "4 ranks on 2 hosts")
        self.assertEqual(len(read_steps(out)), 2)

    def test_mpirun_inside_an_allocation(self):
        out = self.cluster.path("mpirun")
        result = self.cluster.run("salloc", "--nodes", "2", "--ntasks-per-node", "2", "mpirun", "-n", "4", "./trainer",
                                  "--profile", "zero2", *TINY, "--max_steps", "2", "--output_dir", out)
        self.expect(result, 0, "mesh 1x4x1x1", "4 ranks on 2 hosts")
        self.assertEqual(len(read_steps(out)), 2)

    def test_alone_in_a_batch_shell(self):
        out = self.cluster.path("alone-out")
        training = ("./trainer", *TINY, "--max_steps", "1", "--output_dir", out)
        result = self.cluster.run("salloc", "--ntasks", "2", *training)
        self.expect(result, 78)
        self.expect_one_line_of_ours(result.stderr, "SLURM_NTASKS = 2", "put srun before it")
        self.expect(self.cluster.run("salloc", "--ntasks", "2", "./trainer", "doctor"), 0)
        for alone in (("--ntasks", "2", "srun", "--ntasks", "1"), ("--ntasks", "2", "mpirun", "-n", "1"), ()):
            self.expect(self.cluster.run("salloc", *alone, *training, "--resume_from_checkpoint", "never"), 0, "mesh 1x1x1x1")

    def test_srun_and_mpi_that_do_not_understand_each_other(self):
        for mpi in ("none", "pmi2"):
            with self.subTest(mpi):
                result = self.srun(f"--mpi={mpi}", "./trainer", "doctor")
                self.expect(result, 78)
                self.expect_one_line_of_ours(result.stderr, "srun --mpi=pmix")

    def test_smoke(self):
        log = self.cluster.path("smoke.log")
        out = self.cluster.path("smoke")
        result = self.cluster.run("sbatch", "--wait", "--output", log, "slurm/smoke.sh", out)
        with open(log) as file:
            said = file.read()
        self.assertEqual(result.returncode, 0, said)
        self.assertIn("smoke: OK", said)
        self.assertFalse(os.path.exists(out))

    def test_smoke_leaves_alone_what_is_there(self):
        out = self.cluster.path("precious")
        os.mkdir(out)
        result = self.cluster.run("sbatch", "--wait", "--output", "/dev/null", "slurm/smoke.sh", out)
        self.assertEqual(result.returncode, 74)
        self.assertTrue(os.path.exists(out))

    def test_sbatch_from_another_folder(self):
        """The script finds the program by its own path; a copy elsewhere says what to set."""
        folder = self.cluster.path("elsewhere")
        os.makedirs(folder)
        shutil.copy(os.path.join(self.cluster.root, "slurm", "train_1node.sh"), folder)
        for script, code, words in ((os.path.join(self.cluster.root, "slurm", "train_1node.sh"), 0, "done: step 1"),
                                    (os.path.join(folder, "train_1node.sh"), 66, f"RINGSHARD_ROOT = {folder}: set it to the folder")):
            log = os.path.join(folder, "log")
            command = shlex.join(["sbatch", "--wait", "--output", log, script, *TINY, "--max_steps", "1", "--output_dir", "out"])
            result = self.cluster.run("sh", "-c", f"cd {folder} && {command}")
            with open(log) as file:
                said = file.read()
            self.assertEqual(result.returncode, code, said)
            self.assertIn(words, said)
            os.remove(log)

    def test_doctor_names_the_fence_that_is_missing(self):
        """The cluster has it in its mpi.conf; scontrol shows that."""
        result = self.srun("./trainer", "doctor")
        self.expect(result, 0)
        self.assertNotIn("SLURM_PMIX_FENCE is not set", result.stdout)

    def test_a_site_that_is_not_known(self):
        job = Job(self.cluster, "site", SITE="nowhere")
        self.assertEqual(job.wait_for_end(), 66, job.story())
        self.assertIn("SITE = nowhere: there is no ", job.story())

    def test_srun_is_asked_for_a_fence_that_waits(self):
        """slurm/job.sh says why."""
        self.cluster.wrap_trainer('[ -z "$PMIX_RANK" ] || [ "$SLURM_PMIX_FENCE" = ring ] || exit 3')
        job = Job(self.cluster, "fence", *FOUR_RANKS, "--max_steps", "1", RANKS_PER_NODE="2")
        self.assertEqual(job.wait_for_end(), 0, job.story())

    def test_prepare(self):
        job = Job(self.cluster, "prepare", "--packing", script="slurm/prepare.sh", flags=("--partition", "cpu"))
        self.assertEqual(job.wait_for_end(), 0, job.story())

    def test_wrong_settings_start_no_rank(self):
        job = Job(self.cluster, "wrong", "--learning_rat", "1")
        self.assertEqual(job.wait_for_end(), 78, job.story())
        self.expect_one_line_of_ours(job.said(), "learning_rat")
        self.assertNotIn("srun", job.story())


class Endings(SlurmTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.arguments = [*FOUR_RANKS, "--max_steps", STEPS, "--save_steps", "20"]
        cls.whole = cls.reference(cls(), "whole", *cls.arguments, ranks=4)

    def setUp(self):
        self.cluster.wrap_trainer(SLOW_START)

    def expect_whole(self, job):
        self.assertEqual(job.wait_for_end(), 0, job.story())
        self.expect_curve(job.out, self.whole)
        self.assertEqual(self.checkpoint_step(job.out), int(STEPS))

    def test_a_warning_saves_and_the_job_comes_back(self):
        job = Job(self.cluster, "warned", *self.arguments)
        job.wait_for_step(5)
        self.cluster.run("scancel", "--signal=USR1", job.id)  # what --signal=USR1@300 sends
        job.wait_for_words("ended with 75 after checkpoint-")
        self.assertIn(" by SIGUSR1: checkpoint-", job.story())
        self.expect_whole(job)
        self.assertEqual(job.show()["Restarts"], "1")
        self.assertIn("resuming from", job.story())

    def test_an_element_of_an_array_comes_back_alone(self):
        out = self.cluster.path("element")
        self.cluster.wrap_trainer(f"{SLOW_START}\nexport RINGSHARD_OUTPUT_DIR={out}-$SLURM_ARRAY_TASK_ID")
        result = self.cluster.run("sbatch", "--parsable", "--array=1-2", "--nodes", "1", "--output", out + "-%a.log",
                                  "slurm/train_1node.sh", *TINY, "--per_device_train_batch_size", "1", "--max_steps", STEPS)
        self.assertEqual(result.returncode, 0, result.stderr)
        array = result.stdout.strip()
        one, last = (Job.of(self.cluster, f"{array}_{i}", f"{out}-{i}", f"{out}-{i}.log") for i in (1, 2))
        last.wait_for_step(5)
        self.assertEqual(last.show()["JobId"], array)  # the number of the whole array
        self.cluster.run("scancel", "--signal=USR1", last.id)
        for job in (one, last):
            self.assertEqual(job.wait_for_end(), 0, job.story())
        self.assertEqual((one.show()["Restarts"], last.show()["Restarts"]), ("0", "1"))

    def test_a_job_that_slurm_does_not_requeue(self):
        job = Job(self.cluster, "norequeue", *self.arguments, flags=("--nodes", "2", "--no-requeue"))
        job.wait_for_step(5)
        self.cluster.run("scancel", "--signal=USR1", job.id)
        self.assertEqual(job.wait_for_end(), 75, job.story())
        self.assertIn("SLURM did not requeue it; submit it again to go on", job.story())

    def test_scancel_saves_and_ends(self):
        job = Job(self.cluster, "cancelled", *self.arguments)
        job.wait_for_step(5)
        self.cluster.run("scancel", job.id)
        job.wait_for_end()
        self.assertEqual(job.show()["JobState"], "CANCELLED")
        self.assertIn("was ended from outside (scancel, preemption, scontrol requeue), with 75", job.story())
        self.assertEqual(self.checkpoint_step(job.out), job.steps_done())

    def test_stop_now_ends(self):
        job = Job(self.cluster, "stopped", *self.arguments)
        job.wait_for_step(5)
        open(os.path.join(job.out, "stop-now"), "w").close()
        self.assertEqual(job.wait_for_end(), 75, job.story())
        self.assertIn("was asked to stop by stop-now", job.story())
        self.assertEqual(job.show()["Restarts"], "0")

    def test_a_rank_is_killed(self):
        pids = self.cluster.path("pids")
        os.mkdir(pids)
        self.cluster.wrap_trainer(f'{SLOW_START}\n[ -n "$PMIX_RANK" ] && echo $$ > {pids}/$PMIX_RANK')
        job = Job(self.cluster, "killed", *self.arguments)
        job.wait_for_step(random.randint(21, 120))
        with open(os.path.join(pids, str(random.randrange(4)))) as file:
            self.cluster.run("kill", "-9", file.read().strip())
        began = time.monotonic()
        job.wait_for_words("requeued", 30)
        self.assertLess(time.monotonic() - began, 15)
        self.expect_whole(job)
        with open(os.path.join(job.out, "restarts")) as file:
            self.assertEqual(len(file.readlines()), 1)

    def test_killed_before_the_first_checkpoint(self):
        job = Job(self.cluster, "early", *self.arguments, RINGSHARD_FAULT="step:3:kill@1", MAX_RESTARTS_WITHOUT_PROGRESS="1")
        self.assertNotIn(job.wait_for_end(), (0, 75), job.story())
        self.assertIn("after 1 restarts without a new checkpoint", job.story())
        self.assertEqual(job.show()["Restarts"], "1")

    def test_one_rank_fails(self):
        for action, cause in (("throw", "RINGSHARD_FAULT asked for this"), ("segv", "SIGSEGV")):
            with self.subTest(action):
                job = Job(self.cluster, action, *self.arguments, RINGSHARD_FAULT=f"step:3:{action}@2",
                          MAX_RESTARTS_WITHOUT_PROGRESS="0")
                code = job.wait_for_end()
                self.assertEqual(code, 70 if action == "throw" else code, job.story())
                self.expect_one_line_of_ours(job.said(), "[rank 2 on hn2, step 3]", cause)
                with open(os.path.join(job.out, "attempt-1", "crash-rank2.txt")) as file:
                    crash = file.read()
                self.assertIn(cause, crash)
                self.assertIn("libringshard_engine.so(", crash)
                self.assertEqual([name for name in os.listdir(os.path.join(job.out, "attempt-1")) if name.startswith("crash-")],
                                 ["crash-rank2.txt"])

    def test_a_full_disk(self):
        disk = self.cluster.path("disk")
        os.mkdir(disk)
        self.cluster.do("on", "hn1", "mount", "-t", "tmpfs", "-o", "size=300k", "disk", disk)
        job = Job(self.cluster, os.path.join("disk", "run"), "--max_steps", STEPS, "--save_steps", "20",
                  flags=("--nodes", "1", "--nodelist", "hn1", "--output", self.cluster.path("disk.log")))
        job.log = self.cluster.path("disk.log")
        self.assertEqual(job.wait_for_end(), 74, job.story())
        self.expect_one_line_of_ours(job.said(), "max_failed_saves = 3")

    def test_two_jobs_with_one_folder(self):
        first = Job(self.cluster, "shared", *self.arguments)
        first.wait_for_step(5)
        first_log, first.log = first.log, self.cluster.path("shared-first.log")
        os.rename(first_log, first.log)  # it is open, so the job goes on writing there
        second = Job(self.cluster, "shared", *self.arguments, FAST="1")
        self.assertEqual(second.wait_for_end(), 78, second.story())
        self.expect_one_line_of_ours(second.said(), "is at work there: rank 0 on hn1", f"SLURM job {first.id}@")
        os.remove(second.log)
        second = Job(self.cluster, "shared", *self.arguments, "--take_over", "true", FAST="1")
        self.assertEqual(first.wait_for_end(), 79, first.story())
        self.assertEqual(first.show()["Restarts"], "0")
        self.expect_one_line_of_ours(first.said(), "it leaves the run alone")
        self.expect_whole(second)


if __name__ == "__main__":
    unittest.main()

"""Saves beside training: what fails is told and counted, nothing half-valid is left, and zombies do no harm."""

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from saves import COMMON, PATIENCE, SHORT, SavesTest, checkpoints, read_saves, read_steps, run, wait_for
from trainer import some_of


class Beside(SavesTest):
    def test_an_exception_in_a_save_ends_the_job_before_anybody_waits_for_that_save(self):
        failed = run("train", *COMMON, "--profile", "zero3", "--max_steps", "400", "--save_steps", "150",
                     "--output_dir", self.output, ranks=2, RINGSHARD_FAULT="save:written:1:throw@1")
        self.expect_one_message(failed, 70, "[rank 1 on ", "RINGSHARD_FAULT asked for this")
        self.assertIn(read_steps(self.output)[-1]["step"], range(150, 300))
        self.assertNotIn("is still under way", failed.stderr)
        with open(os.path.join(self.output, "attempt-1", "crash-rank1.txt")) as file:
            self.assertIn("cause: RINGSHARD_FAULT asked for this", file.read())

    def test_a_rank_that_fails_stays_until_its_message_is_read(self):
        """mpirun ends when a rank aborts, and may then leave unread what that rank wrote last."""
        process = self.start("train", *COMMON, "--max_steps", "4", "--save_steps", "2", "--output_dir", self.output,
                             RINGSHARD_FAULT="save:written:1:throw")
        crash = os.path.join(self.output, "attempt-1", "crash-rank0.txt")
        wait_for(lambda: os.path.exists(crash))
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        _, said = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual(process.returncode, 70, said)
        self.assertIn("RINGSHARD_FAULT asked for this", said)

    def test_training_goes_on_while_a_save_stalls(self):
        go_on = os.path.join(self.folder.name, "go-on")
        process = self.start("train", *COMMON, "--max_steps", "40", "--save_steps", "10", "--save_strategy", "steps",
                             "--output_dir", self.output, RINGSHARD_FAULT="save:write:1:stall",
                             RINGSHARD_TEST_GO_ON=go_on)
        metrics = os.path.join(self.output, "metrics.jsonl")
        # The save of step 10 stands still; the next one, of step 20, waits for it.
        wait_for(lambda: os.path.exists(metrics) and read_steps(self.output)[-1:] and
                 read_steps(self.output)[-1]["step"] == 20)
        self.assertEqual(checkpoints(self.output), [])
        self.assertEqual(read_saves(self.output), [])
        with open(go_on, "w"):
            pass
        _, said = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("is still under way, and training waits for it", said)
        self.assertEqual(checkpoints(self.output), [10, 20, 30, 40])
        saves = read_saves(self.output)
        self.assertEqual([line["save_step"] for line in saves], [10, 20, 30, 40])
        self.assertEqual([line["failed_saves"] for line in saves], [0] * 4)
        self.assertTrue(all(line["save_bytes"] > 0 and line["save_s"] > 0 for line in saves))

    def test_what_is_saved_is_the_state_of_its_step(self):
        """A save that stalls while later steps change the weights holds the old ones."""
        plain = os.path.join(self.folder.name, "plain")
        self.expect(run("train", *COMMON, "--max_steps", "8", "--save_steps", "4", "--output_dir", plain), 0)
        go_on = os.path.join(self.folder.name, "go-on")
        process = self.start("train", *COMMON, "--max_steps", "8", "--save_steps", "4", "--output_dir", self.output,
                             RINGSHARD_FAULT="save:begin:1:stall", RINGSHARD_TEST_GO_ON=go_on)
        wait_for(lambda: os.path.isdir(self.output) and os.path.exists(os.path.join(self.output, "metrics.jsonl")) and
                 len(read_steps(self.output)) == 8)
        with open(go_on, "w"):
            pass
        _, said = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(self.hashes(plain, 4), self.hashes(self.output, 4))
        self.assertNotEqual(self.hashes(plain, 4), self.hashes(plain, 8))

    def hashes(self, output, step):
        with open(os.path.join(output, f"checkpoint-{step}", "manifest.json")) as file:
            return {r["dataset"]: r["xxh3_128"] for r in json.load(file)["ranges"]}

    def test_no_room_for_a_copy(self):
        result = run("train", *SHORT, "--output_dir", self.output, ranks=2, RINGSHARD_TEST_FREE_MEMORY="1000")
        self.expect(result, 0, "does not fit into the memory of every host", "written in parts")
        self.assertEqual(checkpoints(self.output), [2, 4, 6, 8])
        self.assertEqual({line["memory_save_copy_bytes"] for line in read_steps(self.output)}, {0})
        roomy = os.path.join(self.folder.name, "roomy")
        self.expect(run("train", *SHORT, "--output_dir", roomy, ranks=2), 0)
        self.assertEqual(self.hashes(roomy, 6), self.hashes(self.output, 6))
        # The copy is weights and both moments of half the model, and not more.
        with open(os.path.join(roomy, "checkpoint-6", "manifest.json")) as file:
            half = sum(r["length"] for r in json.load(file)["ranges"]) / 2
        staged = read_steps(roomy)[-1]["memory_save_copy_bytes"]
        self.assertTrue(half <= staged <= 1.05 * half, (half, staged))


class Failing(SavesTest):
    def test_what_the_disk_does(self):
        for fault, words in (("save:write:1:enospc@1", "No space left on device"),
                             ("save:write:30:eio", "Input/output error"),
                             ("save:write:3:short@1", "the disk takes no more"),
                             ("save:flush:1:eio@1", "Input/output error"),
                             ("save:layout:1:enospc", "No space left on device"),
                             ("save:describe:1:enospc", "No space left on device"),
                             ("save:name:1:eio", "Input/output error")):
            with self.subTest(fault):
                shutil.rmtree(self.output, ignore_errors=True)
                result = run("train", *SHORT, "--output_dir", self.output, ranks=2, RINGSHARD_FAULT=fault)
                self.expect(result, 0, "warning: the save of step 2 failed", words, "training goes on")
                self.assertEqual(checkpoints(self.output), [4, 6, 8])
                self.expect_nothing_half_done()
                self.assertEqual([(line["save_step"], line["failed_saves"]) for line in read_saves(self.output)],
                                 [(2, 1), (4, 0), (6, 0), (8, 0)])
                self.assertEqual([line["step"] for line in read_steps(self.output)], list(range(1, 9)))

    def test_the_last_save_fails(self):
        flags = ["train", *COMMON, "--max_steps", "4", "--save_steps", "2", "--output_dir", self.output]
        result = run(*flags, ranks=2, RINGSHARD_FAULT="save:flush:2:eio@1")
        self.expect(result, 74, "warning: the save of step 4 failed", "the save of the last step failed", "is whole")
        self.assertEqual(checkpoints(self.output), [2])
        self.assertIn("model.safetensors", os.listdir(self.output))
        self.expect(run(*flags, ranks=2), 0, "done: step 4")  # goes on, and saves
        self.assertEqual(checkpoints(self.output), [2, 4])

    def test_a_link_that_cannot_be_set_is_a_warning(self):
        result = run("train", *SHORT, "--output_dir", self.output, RINGSHARD_FAULT="save:latest:1:enospc")
        self.expect(result, 0, "warning: ", "No space left on device")
        self.assertEqual(checkpoints(self.output), [2, 4, 6, 8])

    def test_too_many_in_a_row(self):
        result = run("train", *COMMON, "--max_steps", "40", "--save_steps", "2", "--max_failed_saves", "2",
                     "--output_dir", self.output, ranks=2, RINGSHARD_FAULT="save:flush:*:eio@1")
        self.expect_one_message(result, 74, "max_failed_saves = 2", "Input/output error")
        self.assertEqual([line["failed_saves"] for line in read_saves(self.output)], [1, 2])
        self.assertEqual(checkpoints(self.output), [])
        self.expect_nothing_half_done()

    def test_a_folder_that_vanishes(self):
        """The folder of a save goes away while it is written."""
        go_on = os.path.join(self.folder.name, "go-on")
        process = self.start("train", *COMMON, "--max_steps", "60", "--save_steps", "20", "--output_dir", self.output,
                             RINGSHARD_FAULT="save:layout:1:stall", RINGSHARD_TEST_GO_ON=go_on)
        saving = os.path.join(self.output, "checkpoint-20.tmp-1")
        wait_for(lambda: os.path.exists(os.path.join(saving, "state.h5")))
        while os.path.exists(saving):  # files may come while the folder goes
            shutil.rmtree(saving, ignore_errors=True)
        with open(go_on, "w"):
            pass
        _, said = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("warning: the save of step 20 failed", said)
        self.assertEqual(checkpoints(self.output), [40, 60])
        self.assertEqual([line["step"] for line in read_steps(self.output)], list(range(1, 61)))


class FullDisk(SavesTest):
    """A file system of a few megabytes, where the machine lets us mount one."""

    def mounted(self, size):
        os.makedirs(self.output)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.output],
                          capture_output=True).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(subprocess.run, ["umount", self.output], check=True)

    def test_ends_with_74_after_three(self):
        """Wherever the room ends: where HDF5 writes, where it closes, where the ranks write."""
        for size in some_of(("60k", "100k", "140k", "180k", "300k")):
            with self.subTest(size):
                self.mounted(size)
                result = run("train", *COMMON, "--max_steps", "40", "--save_steps", "2", "--output_dir", self.output,
                             ranks=2)
                self.expect_one_message(result, 74, "max_failed_saves = 3")
                self.assertEqual(result.stderr.count("warning: the save of step"), 3)
                self.assertEqual(glob.glob(os.path.join(self.output, "checkpoint-*")), [])
                self.doCleanups()
                self.folder = tempfile.TemporaryDirectory()
                self.addCleanup(self.folder.cleanup)
                self.output = os.path.join(self.folder.name, "out")

    def test_goes_on_when_there_is_room_again(self):
        self.mounted("8m")
        ballast = os.path.join(self.output, "ballast")
        with open(ballast, "wb") as file:
            file.write(b"\1" * ((8 << 20) - (64 << 10)))
        process = self.start("train", *COMMON, "--max_steps", "60", "--save_steps", "20", "--output_dir", self.output)
        wait_for(lambda: process.poll() is not None or os.path.exists(os.path.join(self.output, "metrics.jsonl"))
                 and read_saves(self.output))
        os.remove(ballast)
        _, said = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("warning: the save of step 20 failed", said)
        self.assertEqual(checkpoints(self.output)[-1], 60)
        self.assertEqual([line["step"] for line in read_steps(self.output)], list(range(1, 61)))

    def test_a_disk_that_becomes_read_only(self):
        self.mounted("64m")
        process = self.start("train", *COMMON, "--max_steps", "200", "--save_steps", "20", "--output_dir", self.output)
        wait_for(lambda: process.poll() is not None or 20 in checkpoints(self.output))
        subprocess.run(["mount", "-o", "remount,ro", self.output], capture_output=True)
        time.sleep(0.5)
        subprocess.run(["mount", "-o", "remount,rw", self.output], capture_output=True)
        _, said = process.communicate(timeout=100 * PATIENCE)
        self.assertIn(process.returncode, (0, 74), said)
        self.assertIn(20, checkpoints(self.output))


class Zombies(SavesTest):
    """Attempt 1 stands still before the rename of step 4, attempt 2 has gone on from step 2, and 1 wakes up."""

    def wake(self, prepare):
        go_on = os.path.join(self.folder.name, "go-on")
        zombie = self.start("train", *SHORT, "--output_dir", self.output, RINGSHARD_FAULT="save:name:2:stall",
                            RINGSHARD_TEST_GO_ON=go_on)
        saving = os.path.join(self.output, "checkpoint-4.tmp-1")
        wait_for(lambda: os.path.exists(go_on + ".awaited"))
        kept = os.path.join(self.folder.name, "kept")
        shutil.copytree(saving, kept)
        second = run("train", *COMMON, "--max_steps", "8", "--save_steps", "6", "--output_dir", self.output, "--take_over", "true")
        self.expect(second, 0, "resuming from " + os.path.join(self.output, "checkpoint-2"))
        self.assertFalse(os.path.exists(saving))
        prepare(kept, saving)
        with open(go_on, "w"):
            pass
        _, said = zombie.communicate(timeout=90 * PATIENCE)
        self.assertEqual(zombie.returncode, 79, said)
        self.assertIn("attempt 2 of this run has begun", said)

    def test_that_finds_its_files_gone(self):
        self.wake(lambda kept, saving: None)
        self.assertEqual(checkpoints(self.output), [2, 6, 8])

    def test_whose_checkpoint_gets_its_name(self):
        self.wake(shutil.move)
        self.assertEqual(checkpoints(self.output), [2, 4, 6, 8])
        for step in (6, 8):
            shutil.rmtree(os.path.join(self.output, f"checkpoint-{step}"))
        again = run("train", *COMMON, "--max_steps", "8", "--save_steps", "2", "--output_dir", self.output)
        self.expect(again, 0, "resuming from " + os.path.join(self.output, "checkpoint-2"))
        self.assertIn("superseded-4-1", os.listdir(self.output))
        self.assertEqual(checkpoints(self.output), [2, 4, 6, 8])


class OtherRuns(SavesTest):
    """What a process does that stood still while its run was taken over, or another one began in its folder."""

    def stand_still(self, fault):
        self.go_on = os.path.join(self.folder.name, "go-on")
        self.still = self.start("train", *SHORT, "--output_dir", self.output, RINGSHARD_FAULT=fault,
                                RINGSHARD_TEST_GO_ON=self.go_on)
        wait_for(lambda: os.path.exists(self.go_on + ".awaited"))

    def wake(self, *words):
        open(self.go_on, "w").close()
        _, said = self.still.communicate(timeout=90 * PATIENCE)
        self.assertEqual(self.still.returncode, 79, said)
        for word in words:
            self.assertIn(word, said)

    def model(self):
        with open(os.path.join(self.output, "model.safetensors"), "rb") as file:
            return file.read()

    def expect_another_run_to_stay_as_it_is(self):
        os.rename(self.output, self.output + "-before")  # in one step: the process removes files of its own when it sees it
        shutil.rmtree(self.output + "-before")
        self.expect(run("train", *COMMON, "--max_steps", "3", "--save_steps", "3", "--output_dir", self.output), 0)
        kept = sorted(os.listdir(self.output))
        self.wake("another run has begun in the place of this one")
        self.assertEqual(sorted(os.listdir(self.output)), kept)
        self.assertEqual(checkpoints(self.output), [3])

    def test_a_run_in_the_place_of_one_that_was_removed(self):
        self.stand_still("save:name:2:stall")
        self.expect_another_run_to_stay_as_it_is()

    def test_a_run_in_the_place_of_one_that_was_begun_twice(self):
        self.assertEqual(run("train", *SHORT, "--output_dir", self.output, RINGSHARD_FAULT="step:4:kill").returncode, -signal.SIGKILL)
        self.stand_still("save:name:1:stall")
        self.expect_another_run_to_stay_as_it_is()

    def test_a_model_is_not_replaced_by_an_older_attempts(self):
        self.stand_still("export:1:stall")
        other = run("train", *SHORT, "--resume_from_checkpoint", "never", "--learning_rate", "0.01", "--allow_changed", "--take_over",
                    "true", "--output_dir", self.output)
        self.expect(other, 0)
        kept = self.model()
        self.wake("attempt 2 of this run has begun")
        self.assertEqual(self.model(), kept)

    def test_a_longer_run_that_is_killed_at_its_end_ends_again(self):
        flags = [*COMMON, "--lr_scheduler_type", "constant", "--save_steps", "4", "--output_dir", self.output]
        self.expect(run("train", *flags, "--max_steps", "4"), 0)
        short = self.model()
        self.assertEqual(run("train", *flags, "--max_steps", "8", RINGSHARD_FAULT="export:1:kill").returncode, -signal.SIGKILL)
        self.assertEqual(self.model(), short)
        self.expect(run("train", *flags, "--max_steps", "8"), 0, "done: step 8")
        self.assertNotEqual(self.model(), short)
        state = os.path.join(self.output, "trainer_state.json")
        with open(state) as file:
            whole = file.read()
        os.remove(state)  # as if it had been killed before this last word
        self.expect(run("train", *flags, "--max_steps", "8"), 0, "this run is complete")
        with open(state) as file:
            self.assertEqual(file.read(), whole)


class Stops(SavesTest):
    def test_what_is_asked_for_in_a_step_that_is_taken_back(self):
        process = self.start("train", *COMMON, "--max_steps", "50", "--gradient_accumulation_steps", "300", "--on_nan", "rewind",
                             "--output_dir", self.output, RINGSHARD_FAULT="weights:1:nan")
        wait_for(lambda: os.path.exists(os.path.join(self.output, "metrics.jsonl")))
        for wish in ("stop-now", "save-now"):
            open(os.path.join(self.output, wish), "w").close()
        _, said = process.communicate(timeout=120 * PATIENCE)
        self.assertEqual(process.returncode, 75, said)
        self.assertIn("on_nan = rewind", said)
        self.assertTrue(os.path.exists(os.path.join(self.output, "stopped")))
        self.assertEqual(len(checkpoints(self.output)), 1)

    def test_a_stop_waits_for_a_save_and_saves_again_if_it_fails(self):
        process = self.start("train", *COMMON, "--max_steps", "100000", "--save_steps", "100000", "--output_dir",
                             self.output, RINGSHARD_FAULT="save:write:1:eio")
        wait_for(lambda: os.path.exists(os.path.join(self.output, "metrics.jsonl")))
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual(process.returncode, 75, said)
        self.assertIn("warning: the save of step", said)
        self.assertEqual(len(checkpoints(self.output)), 1)
        self.expect_nothing_half_done()


if __name__ == "__main__":
    unittest.main()

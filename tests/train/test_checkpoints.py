"""Damaged checkpoints, checkpoints that somebody names, how many are kept, and ends that are asked for."""

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
COMMON = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"),
          "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false",
          "--max_length", "48", "--per_device_train_batch_size", "2", "--logging_steps", "1"]
SHORT = [*COMMON, "--max_steps", "4", "--save_steps", "2"]


class Run(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.whole = os.path.join(cls.folder.name, "whole")
        result = run("train", *SHORT, "--output_dir", cls.whole)
        assert result.returncode == 0, result.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def copy(self, name):
        output = os.path.join(self.folder.name, name)
        shutil.copytree(self.whole, output)
        return output

    def change_manifest(self, folder, **changes):
        """As a program left it that wrote no checkpoint.json."""
        os.remove(os.path.join(folder, "checkpoint.json"))
        path = os.path.join(folder, "manifest.json")
        with open(path) as file:
            manifest = json.load(file)
        with open(path, "w") as file:
            json.dump({**manifest, **changes}, file)

    def wait_for(self, path):
        end = time.monotonic() + 60 * PATIENCE
        while not os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertTrue(os.path.exists(path))

    def flip(self, folder, dataset="/optimizer/exp_avg/model.layers.1.mlp.down_proj.weight"):
        """Changes one bit of a tensor."""
        with open(os.path.join(folder, "manifest.json")) as file:
            place = next(r["offset"] for r in json.load(file)["ranges"] if r["dataset"] == dataset)
        with open(os.path.join(folder, "state.h5"), "r+b") as file:
            file.seek(place + 40)
            byte = file.read(1)[0]
            file.seek(place + 40)
            file.write(bytes([byte ^ 1]))


class Damaged(Run):
    def test_is_stepped_over(self):
        def no_hdf5(folder):
            with open(os.path.join(folder, "state.h5"), "r+b") as file:
                file.write(b"\0" * 64)

        def no_hdf5_and_no_hash_of_it(folder):
            no_hdf5(folder)
            self.change_manifest(folder, frames={})

        def cut_short(folder):
            with open(os.path.join(folder, "state.h5"), "r+b") as file:
                file.truncate(os.path.getsize(file.name) - 1)

        def other_bytes_of_hdf5(folder):
            """A bit between the tensors, in a text."""
            with open(os.path.join(folder, "state.h5"), "r+b") as file:
                place = file.read().rindex(b"max_steps: 4")
                file.seek(place)
                file.write(b"max_steps: 5")

        for name, damage, words in (
            ("bit", self.flip, "down_proj.weight is not what was written"),
            ("header", no_hdf5, "HDF5's own bytes are not what was written"),
            ("short", cut_short, "bytes instead of"),
            ("frame", other_bytes_of_hdf5, "HDF5's own bytes are not what was written"),
            ("missing", lambda folder: os.remove(os.path.join(folder, "state.h5")), "state.h5 is missing"),
            ("foreign", lambda folder: self.change_manifest(folder, format="theirs"), "is not of a checkpoint"),
            ("step", lambda folder: self.change_manifest(folder, step=3), "holds step 3"),
            ("version", lambda folder: self.change_manifest(folder, version=1), "format version 1"),
            ("no hash of the header", no_hdf5_and_no_hash_of_it, "manifest.json has no hash of HDF5's own bytes"),
            ("ranges", lambda folder: self.change_manifest(folder, ranges=[]), "HDF5's own bytes are not what was written"),
            ("manifest", lambda folder: os.remove(os.path.join(folder, "manifest.json")), "it was never finished"),
        ):
            with self.subTest(name):
                output = self.copy(name)
                damage(os.path.join(output, "checkpoint-4"))
                ranks, rows = (2, "1") if name == "bit" else (None, "2")  # the same batch
                result = run("train", *SHORT, "--per_device_train_batch_size", rows, "--output_dir", output,
                             ranks=ranks)
                self.expect(result, 0, "warning: checkpoint left out", words,
                            "resuming from " + os.path.join(output, "checkpoint-2"))

    def test_sizes_alone_are_quicker_and_see_less(self):
        output = self.copy("sizes")
        self.flip(os.path.join(output, "checkpoint-4"))
        result = run("train", *SHORT, "--verify_checkpoint", "sizes", "--output_dir", output)
        self.expect(result, 0, "step 4 was the last one: this run is complete")
        self.assertNotIn("warning", result.stderr)

    def test_with_nothing_to_fall_back_on(self):
        output = self.copy("none")
        self.flip(os.path.join(output, "checkpoint-4"))
        shutil.rmtree(os.path.join(output, "checkpoint-2"))
        self.expect_one_message(run("train", *SHORT, "--output_dir", output, ranks=2), 65,
                                "no checkpoint of this run is good", "begin again with --resume_from_checkpoint never")
        self.expect(run("train", *SHORT, "--output_dir", output, "--resume_from_checkpoint", "never"), 0)

    def test_named_ones(self):
        output = self.copy("named")
        checkpoint = os.path.join(output, "checkpoint-4")

        def resume(folder, ranks=None):
            return run("train", *SHORT, "--output_dir", os.path.join(output, "new"), "--resume_from_checkpoint", folder,
                       ranks=ranks)

        self.expect(resume(os.path.join(output, "checkpoint-2") + "/"), 0, "resuming from")
        self.flip(checkpoint)
        self.expect_one_message(resume(checkpoint, ranks=2), 65, "is not what was written")
        os.rename(checkpoint, checkpoint + ".tmp-1")
        self.expect_one_message(resume(checkpoint + ".tmp-1"), 65, "it was never finished")
        self.expect_one_message(resume(output), 65, "is not the folder of a checkpoint")
        os.remove(os.path.join(output, "checkpoint-2", "manifest.json"))
        self.expect_one_message(resume(os.path.join(output, "checkpoint-2"), ranks=2), 65, "has no manifest.json")
        self.expect_one_message(resume(os.path.join(output, "checkpoint-7"), ranks=2), 66, "there is no such folder")


class Mismatched(Run):
    """Another model or other settings are no damage: no older checkpoint is taken instead."""

    def test_changed_settings_are_named(self):
        output = self.copy("changed")
        longer = [*COMMON, "--max_steps", "8", "--save_steps", "4", "--output_dir", output]
        self.expect_one_message(run("train", *longer, ranks=2), 78, "checkpoint-4: was made with other settings",
                                "max_steps: 4 then, 8 now", "effective batch", "2 then, 4 now", "--allow_changed")
        self.expect_one_message(run("train", *SHORT, "--learning_rate", "0.1", "--seed", "7", "--output_dir", output), 78,
                                "learning_rate: 2e-05 then, 0.1 now", "seed: 42 then, 7 now")
        self.assertEqual(len(read_steps(output)), 4)
        # The same global batch in another layout is no change, and neither is what is logged.
        self.expect(run("train", *SHORT, "--per_device_train_batch_size", "1", "--logging_steps", "3", "--output_dir",
                        output, ranks=2), 0)
        self.expect(run("train", *longer, "--allow_changed"), 0, "resuming from " + os.path.join(output, "checkpoint-4"))
        self.assertEqual([line["step"] for line in read_steps(output)], list(range(1, 9)))

    def test_where_the_rate_does_not_look_ahead_a_run_may_become_longer(self):
        output = os.path.join(self.folder.name, "constant")
        flat = [*COMMON, "--lr_scheduler_type", "constant", "--save_steps", "2", "--output_dir", output]
        self.expect(run("train", *flat, "--max_steps", "2"), 0)
        self.expect(run("train", *flat, "--max_steps", "4"), 0, "resuming from")

    def test_another_model(self):
        output = self.copy("model")
        other = [*SHORT, "--model_name_or_path", os.path.join(DATA, "models", "llama3-tiny"), "--output_dir", output]
        self.expect_one_message(run("train", *other, ranks=2), 65, os.path.join("checkpoint-4", "state.h5"),
                                "it is not of this model")

        # Neither when it is made a model of.
        path = os.path.join(output, "checkpoint-4", "config.json")
        with open(path) as file:
            config = json.load(file)
        with open(path) as file:
            text = file.read()
        size = config["intermediate_size"]
        with open(path, "w") as file:  # as long as it was
            file.write(text.replace(f'"intermediate_size": {size}', f'"intermediate_size": {size + 8}'))
        exported = os.path.join(self.folder.name, "exported-model")
        self.expect_one_message(run("export", path[:-len("config.json")], "--output_dir", exported, ranks=2), 65,
                                "config.json: is not what was written")
        self.assertFalse(os.path.exists(exported))

    def test_weights_alone(self):
        output = os.path.join(self.folder.name, "weights")
        light = [*COMMON, "--max_steps", "6", "--save_steps", "2", "--save_only_model", "--output_dir", output]
        self.expect(run("train", *light, ranks=2), 0)
        self.expect(run("inspect", output, "--rows", "3"), 64, "is a folder, which has --json alone")
        listed = run("inspect", output)
        self.expect(listed, 0, "checkpoint-6  whole, of attempt 1, weights alone (save_only_model)", stream="stdout")
        self.expect(run("train", *light, ranks=2), 0, "this run is complete")
        # A run that came to its last step and not to its end: the weights are all that it needs.
        model = os.path.join(output, "model.safetensors")
        with open(model, "rb") as file:
            finished = file.read()
        os.remove(model)
        with open(os.path.join(output, "metrics.jsonl")) as file:
            lines = file.readlines()
        with open(os.path.join(output, "metrics.jsonl"), "w") as file:
            file.writelines(line for line in lines if "train_runtime" not in line)
        self.expect(run("train", *light, ranks=2), 0, "resuming from " + os.path.join(output, "checkpoint-6"))
        with open(model, "rb") as file:
            self.assertEqual(file.read(), finished)
        longer = [*light, "--max_steps", "8", "--allow_changed"]
        self.expect_one_message(run("train", *longer, ranks=2), 65, "was made with save_only_model")
        self.expect(run("export", output, "--output_dir", os.path.join(self.folder.name, "exported"), ranks=2), 0)


class Listed(Run):
    def test_inspect_looks_through_every_byte(self):
        output = self.copy("listed")
        one = os.path.join(output, "checkpoint-4")
        self.expect(run("inspect", one), 0, "step 4 of attempt 1", "every byte is what was written",
                    "/model/model.norm.weight  ", stream="stdout")
        about = json.loads(run("inspect", one + "/", "--json").stdout)
        self.assertEqual((about["step"], about["whole"], about["has_moments"]), (4, True, True))
        self.assertEqual(about["datasets"]["/model/model.norm.weight"]["type"], "fp32")
        self.flip(one)
        self.expect_one_message(run("inspect", one), 65, "down_proj.weight is not what was written", "instead of")
        self.expect(run("inspect", output), 0, "checkpoint-2  whole", "damaged: ", stream="stdout")
        shutil.rmtree(os.path.join(output, "checkpoint-2"))
        self.expect(run("inspect", output), 65, "no checkpoint of this run is good")


class Kept(Run):
    def test_the_newest(self):
        output = os.path.join(self.folder.name, "limit")
        os.makedirs(os.path.join(output, "checkpoint-9.tmp-0"))
        with open(os.path.join(output, "metrics.jsonl"), "w") as file:
            file.write('{"tool": "mine"}\n{"attempt": "x", "step": []}\n{"cut sh')
        self.expect(run("train", *COMMON, "--max_steps", "5", "--save_steps", "1", "--save_total_limit", "2",
                        "--output_dir", output), 0)
        self.assertEqual(sorted(name for name in os.listdir(output) if name.startswith("checkpoint")),
                         ["checkpoint-4", "checkpoint-5"])
        self.assertEqual(read_metrics(output)[0], {"tool": "mine"})
        self.assertEqual([line["step"] for line in read_steps(output)], [1, 2, 3, 4, 5])

    def test_checkpoints_of_a_run_that_was_begun_again(self):
        output = self.copy("again")
        flags = [*COMMON, "--max_steps", "3", "--save_steps", "3", "--learning_rate", "0.01", "--output_dir", output]
        self.expect(run("train", *flags, "--resume_from_checkpoint", "never", RINGSHARD_FAULT="step:1:kill"), -signal.SIGKILL)
        # Neither people nor programs meet a checkpoint of the former run under the name of one.
        names = sorted(name for name in os.listdir(output) if name.startswith(("checkpoint-", "superseded-", "latest")))
        self.assertEqual(names, ["superseded-2-1", "superseded-4-1"])
        self.expect(run("train", *flags), 0, "done: step 3")
        with open(os.path.join(output, "latest")) as file:
            self.assertEqual(file.read(), "checkpoint-3\n")
        listed = json.loads(run("inspect", output, "--json").stdout)
        self.assertEqual([entry["checkpoint"] for entry in listed["checkpoints"]], ["checkpoint-3"])
        self.expect(run("export", output, "--output_dir", os.path.join(self.folder.name, "exported")), 0, "checkpoint-3 as", stream="stdout")
        self.expect(run("train", *flags), 0, "this run is complete")
        # They count as older than all others.
        longer = [*flags, "--save_steps", "1", "--allow_changed"]
        self.expect(run("train", *longer, "--max_steps", "4", "--save_total_limit", "3"), 0)
        kept = sorted(name for name in os.listdir(output) if name.startswith(("checkpoint-", "superseded-")))
        self.assertEqual(kept, ["checkpoint-3", "checkpoint-4", "superseded-4-1"])
        self.expect(run("train", *longer, "--max_steps", "5", "--save_total_limit", "1"), 0)
        kept = sorted(name for name in os.listdir(output) if name.startswith(("checkpoint-", "superseded-")))
        self.assertEqual(kept, ["checkpoint-5"])

    def test_a_model_folder_that_vanishes_ends_no_run(self):
        model = os.path.join(self.folder.name, "model")
        shutil.copytree(os.path.join(DATA, "models", "qwen2-tiny"), model)
        output = os.path.join(self.folder.name, "vanished")
        process = subprocess.Popen([TRAINER, "train", *COMMON, "--model_name_or_path", model, "--max_steps", "40",
                                    "--save_steps", "40", "--output_dir", output], env=clean_environment(),
                                   stderr=subprocess.PIPE, text=True)
        self.wait_for(os.path.join(output, "metrics.jsonl"))
        shutil.rmtree(model)
        self.assertEqual(process.wait(60), 0, process.stderr.read())
        process.stderr.close()
        self.assertIn("tokenizer.json", os.listdir(os.path.join(output, "checkpoint-40")))


class Asked(Run):
    def test_a_signal_saves_and_ends(self):
        output = os.path.join(self.folder.name, "signal")
        process = subprocess.Popen([TRAINER, "train", *COMMON, "--max_steps", "100000", "--output_dir", output],
                                   env=clean_environment(), stderr=subprocess.PIPE, text=True)
        self.wait_for(os.path.join(output, "metrics.jsonl"))
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual(process.returncode, 75, said)
        self.assertEqual(said.count("asked to stop: the run finishes this step, saves and ends"), 1)
        with open(os.path.join(output, "latest")) as file:
            step = int(file.read().strip().removeprefix("checkpoint-"))
        self.assertEqual(read_steps(output)[-1]["step"], step)
        self.assertIn(f"asked to stop after step {step}", said)

    def test_files_that_ask(self):
        output = os.path.join(self.folder.name, "files")
        os.makedirs(output)
        for name in ("save-now", "stopped"):
            with open(os.path.join(output, name), "w"):
                pass
        self.expect(run("train", *SHORT, "--output_dir", output, ranks=2), 0)
        self.assertIn("checkpoint-1", os.listdir(output))
        self.assertFalse({"save-now", "stopped"} & set(os.listdir(output)))
        with open(os.path.join(output, "stop-now"), "w"):
            pass
        longer = [*COMMON, "--max_steps", "8", "--save_steps", "4", "--allow_changed"]
        self.expect_one_message(run("train", *longer, "--output_dir", output, ranks=2), 75, "asked to stop after step 5")
        self.assertIn("checkpoint-5", os.listdir(output))
        self.assertIn("stopped", os.listdir(output))


class BadNumbers(Run):
    def test_a_run_ends_before_it_saves_them(self):
        output = os.path.join(self.folder.name, "bad")
        result = run("train", *COMMON, "--max_steps", "6", "--save_steps", "1", "--learning_rate", "1e38",
                     "--lr_scheduler_type", "linear", "--warmup_steps", "0", "--output_dir", output, ranks=2)
        self.expect_one_message(result, 76)
        self.assertRegex(result.stderr, r"step \d+: the loss is|holds NaN or infinite numbers")
        for name in os.listdir(output):
            self.assertNotIn(".tmp-", name)


if __name__ == "__main__":
    unittest.main()

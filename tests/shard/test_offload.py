"""State in files: the same run as in memory, in less memory; and what happens where the files have no room."""

import json
import os
import resource
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
ROWS = os.path.join(DATA, "rows", "pretokenized.jsonl")
MEBIBYTE = 1 << 20


def make_model(folder, **changes):
    """A model of random weights whose vocabulary takes several chunks of a file."""
    with open(os.path.join(DATA, "models", "qwen2-tiny", "config.json")) as file:
        config = json.load(file)
    config.update(hidden_size=256, intermediate_size=512, num_hidden_layers=3, vocab_size=9000, **changes)
    path = os.path.join(folder, "wanted.json")
    with open(path, "w") as file:
        json.dump(config, file)
    result = run("init", "--config_json", path, "--output_dir", os.path.join(folder, "model"))
    assert result.returncode == 0, result.stderr
    return os.path.join(folder, "model")


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


class Offload(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = make_model(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = folder.name

    def train(self, name, *settings, ranks=2, model=None, expect=0):
        output = os.path.join(self.output, name)
        result = run("train", "--model_name_or_path", model or self.model, "--dataset_name", ROWS, "--output_dir", output,
                     "--max_steps", "3", "--learning_rate", "1e-3", "--per_device_train_batch_size", "1", "--logging_steps",
                     "1", "--save_strategy", "steps", "--save_steps", "2", *settings, ranks=ranks)
        self.expect(result, expect)
        return output, result.stderr

    def in_files(self, optimizer=True, weights=False):
        settings = []
        if optimizer:
            settings += ["--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", self.output]
        if weights:
            settings += ["--offload_param_device", "nvme", "--offload_param_nvme_path", self.output]
        return settings

    def expect_same_run(self, expected, found):
        for one, other in zip(read_steps(expected), read_steps(found), strict=True):
            for name in ("loss", "entropy"):
                self.assertEqual(one[name], other[name])
            # The squares are added chunk by chunk.
            self.assertAlmostEqual(one["grad_norm"], other["grad_norm"], delta=1e-9 * one["grad_norm"])
        self.assertEqual(read_bytes(os.path.join(expected, "model.safetensors")),
                         read_bytes(os.path.join(found, "model.safetensors")))

    def test_the_same_run(self):
        """Without clipping, every number of the update is the same, whatever lies where."""
        for profile, ranks, bf16, settings, places in [
                ("zero1", 2, False, [], [dict()]),
                ("zero2", 2, True, ["--gradient_accumulation_steps", "2"], [dict()]),
                ("zero3", 1, False, [], [dict(weights=True)]),
                ("zero3", 2, True, ["--gradient_accumulation_steps", "2"],
                 [dict(), dict(weights=True), dict(optimizer=False, weights=True)]),
                ("zero3", 2, False, ["--optimizer_state_dtype", "bf16"], [dict(weights=True)]),
                ("fsdp2", 4, True, ["--dp_shard_size", "2"], [dict(weights=True)])]:
            always = ["--profile", profile, "--bf16", str(bf16).lower(), "--max_grad_norm", "0", *settings]
            name = f"{profile}-{ranks}-{bf16}-{len(settings)}"
            expected, _ = self.train(name, *always, ranks=ranks)
            for number, place in enumerate(places):
                with self.subTest(profile=profile, ranks=ranks, bf16=bf16, **place):
                    found, said = self.train(f"{name}-files-{number}", *always, *self.in_files(**place), ranks=ranks)
                    self.expect_same_run(expected, found)
                    self.assertIn(" in a file (" + self.output, said)
                    held, freed = read_steps(expected)[-1], read_steps(found)[-1]
                    if place.get("optimizer", True):
                        self.assertEqual(freed["memory_optimizer_bytes"], 0)
                    if place.get("weights"):
                        self.assertLess(freed["memory_weights_bytes"], held["memory_weights_bytes"] * 0.7)
                    self.assertGreater(freed["memory_staging_bytes"], 0)
        self.assertEqual([name for name in os.listdir(self.output) if "offload" in name], [])

    def test_checkpoints_do_not_know_where_state_was(self):
        settings = ["--profile", "zero3", "--bf16", "false"]
        expected, _ = self.train("whole", *settings)
        written, _ = self.train("written", *settings, *self.in_files(weights=True))
        checkpoint = os.path.join(written, "checkpoint-2")
        in_memory, _ = self.train("memory", *settings, "--resume_from_checkpoint", checkpoint)
        in_files, _ = self.train("files", *settings, "--resume_from_checkpoint", checkpoint, *self.in_files(weights=True))
        last = read_steps(expected)[-1]
        for output in (in_memory, in_files):
            self.assertAlmostEqual(read_steps(output)[-1]["loss"], last["loss"], delta=1e-6 * last["loss"])
            self.assertEqual(read_steps(output)[-1]["step"], 3)

    def test_host_memory_is_where_a_cpu_run_has_it_anyway(self):
        _, said = self.train("cpu", "--profile", "zero3", "--offload_optimizer_device", "cpu", "--offload_param_device",
                             "cpu")
        self.assertIn("offload_optimizer_device = cpu", said)
        self.assertIn("it changes nothing", said)

    def test_places_that_do_not_serve(self):
        missing = os.path.join(self.output, "missing")
        for words, code, settings in [
                (["offload_optimizer_nvme_path", missing], 66,
                 ["--profile", "zero2", "--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", missing]),
                (["offload_param_device", "use zero3"], 78, ["--profile", "fsdp1", "--fsdp_sharding_strategy", "NO_SHARD",
                                                             *self.in_files(optimizer=False, weights=True)]),
                (["offload_param_device", "offload_param_nvme_path"], 78,
                 ["--profile", "zero3", "--offload_param_device", "nvme"]),
                (["offload_param_device", "stage 3 only"], 78, ["--profile", "zero2", *self.in_files(weights=True)]),
                (["offload_optimizer_device", "stage 1 on"], 78, ["--zero_stage", "0", "--distributed_type", "DEEPSPEED",
                                                                 *self.in_files()])]:
            with self.subTest(words):
                result = run("train", "--model_name_or_path", self.model, "--dataset_name", ROWS, "--output_dir",
                             os.path.join(self.output, "refused"), "--max_steps", "1", *settings, ranks=2)
                self.expect_one_message(result, code, *words)

    def test_no_room(self):
        """The limit on the size of a file stands for a disk that is full."""
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 * MEBIBYTE, 8 * MEBIBYTE))
        result = run("train", "--model_name_or_path", self.model, "--dataset_name", ROWS, "--output_dir",
                     os.path.join(self.output, "full"), "--max_steps", "1", "--profile", "zero3", *self.in_files(), ranks=1,
                     preexec_fn=small_files)
        self.expect_one_message(result, 74, "offload_optimizer_nvme_path", "has no room here", "name another folder")


if __name__ == "__main__":
    unittest.main()

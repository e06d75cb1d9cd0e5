"""Activations in a file: the same run as in memory to the byte, in less memory; and what happens where there is no room."""

import json
import os
import resource
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
ROWS = os.path.join(DATA, "rows", "pretokenized.jsonl")
MEBIBYTE = 1 << 20
NUMBERS = ("loss", "grad_norm", "entropy", "mean_token_accuracy", "learning_rate", "num_tokens")


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


class ActivationOffloading(TrainerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def train(self, name, *settings, ranks=1, model="qwen2-tiny"):
        output = os.path.join(self.folder, name)
        result = run("train", "--model_name_or_path", os.path.join(DATA, "models", model), "--dataset_name", ROWS,
                     "--output_dir", output, "--max_steps", "3", "--learning_rate", "1e-3", "--logging_steps", "1",
                     "--per_device_train_batch_size", "2", "--save_strategy", "no", *settings, ranks=ranks)
        self.expect(result, 0)
        return output, result.stderr

    def in_file(self, folder="offload_param_nvme_path"):
        return ["--activation_offloading", "true", f"--{folder}", self.folder]

    def expect_same_run(self, expected, found):
        for one, other in zip(read_steps(expected), read_steps(found), strict=True):
            for name in NUMBERS:
                self.assertEqual(one[name], other[name], name)
        evaluations = [[line["eval_loss"] for line in read_metrics(output) if "eval_loss" in line]
                       for output in (expected, found)]
        self.assertEqual(*evaluations)
        self.assertEqual(read_bytes(os.path.join(expected, "model.safetensors")),
                         read_bytes(os.path.join(found, "model.safetensors")))

    def test_the_same_run(self):
        packed = ["--packing", "true", "--max_length", "64"]
        evaluates = ["--eval_dataset_name", ROWS, "--eval_strategy", "steps", "--eval_steps", "1", "--eval_on_start", "true"]
        split = ["--cp_size", "2", "--sp_size", "2"]
        for ranks, model, bf16, settings in [
                (1, "qwen2-tiny", False, ["--activation_policy", "all"]),
                (1, "qwen3-tiny", True, ["--activation_policy", "all", *packed]),
                (1, "qwen2-tiny", True, ["--activation_policy", "attention", *evaluates]),
                (1, "llama3-tiny", True, ["--activation_policy", "all_but_gate_up", *packed]),
                (1, "llama3-tiny", False, ["--activation_policy", "input", "--gradient_accumulation_steps", "3", *packed]),
                (2, "qwen2-tiny", False, ["--profile", "zero3", "--gradient_accumulation_steps", "2", *evaluates]),
                (4, "qwen3-tiny", False, ["--activation_policy", "all", *packed, *split, *evaluates]),
                (4, "llama3-tiny", True, ["--profile", "zero3", "--gradient_accumulation_steps", "2", *packed, *split])]:
            with self.subTest(ranks=ranks, model=model, bf16=bf16, settings=settings):
                name = f"run-{len(os.listdir(self.folder))}"
                always = ["--bf16", str(bf16).lower(), "--full_determinism", "true", *settings]
                expected, _ = self.train(name, *always, ranks=ranks, model=model)
                found, said = self.train(name + "-file", *always, *self.in_file(), ranks=ranks, model=model)
                self.expect_same_run(expected, found)
                self.assertIn("activations of each rank: in a file", said)
                self.assertEqual(read_steps(expected)[-1]["memory_staging_bytes"], 0)
                self.assertGreater(read_steps(found)[-1]["memory_staging_bytes"], 0)
        self.assertEqual([name for name in os.listdir(self.folder) if "offload" in name], [])

    def test_beside_state_in_files(self):
        """The three kinds of files share the memory for what is on its way."""
        settings = ["--profile", "zero3", "--full_determinism", "true", "--max_grad_norm", "0"]
        state = ["--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", self.folder,
                 "--offload_param_device", "nvme"]
        expected, _ = self.train("memory", *settings, ranks=2)
        found, _ = self.train("files", *settings, *state, *self.in_file(), ranks=2)
        self.assertEqual(read_bytes(os.path.join(expected, "model.safetensors")),
                         read_bytes(os.path.join(found, "model.safetensors")))

    def test_memory_holds_two_blocks(self):
        """Twelve blocks that keep everything: what is left in memory is one block's, and two are on their way."""
        model = os.path.join(self.folder, "deep")
        self.expect(run("init", "--config_json", self.deep_model(), "--output_dir", model), 0)
        settings = ["--activation_policy", "all", "--packing", "true", "--max_length", "1024", "--bf16", "false"]
        held = read_steps(self.train("held", *settings, model=model)[0])[-1]
        freed = read_steps(self.train("freed", *settings, *self.in_file("offload_optimizer_nvme_path"), model=model)[0])[-1]
        blocks = held["memory_activations_bytes"] - freed["memory_activations_bytes"]
        per_block = freed["memory_staging_bytes"] / 2
        print(f"activations {held['memory_activations_bytes']} bytes in memory; {freed['memory_activations_bytes']} and"
              f" {freed['memory_staging_bytes']} on their way with a file")
        # All but the block that computes left memory.
        self.assertGreater(blocks, 10.5 * per_block)
        self.assertLess(freed["memory_activations_bytes"] + freed["memory_staging_bytes"],
                        held["memory_activations_bytes"] * 0.4)

    def deep_model(self):
        with open(os.path.join(DATA, "models", "qwen2-tiny", "config.json")) as file:
            config = json.load(file)
        config.update(num_hidden_layers=12, layer_types=["full_attention"] * 12)
        path = os.path.join(self.folder, "deep.json")
        with open(path, "w") as file:
            json.dump(config, file)
        return path

    def refuse(self, code, *words, settings=(), preexec_fn=None, ranks=2):
        result = run("train", "--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--dataset_name", ROWS,
                     "--output_dir", os.path.join(self.folder, "refused"), "--max_steps", "1",
                     "--activation_offloading", "true", *settings, ranks=ranks, preexec_fn=preexec_fn)
        self.expect_one_message(result, code, *words)

    def test_places_that_do_not_serve(self):
        missing = os.path.join(self.folder, "missing")
        self.refuse(66, "offload_param_nvme_path", missing, settings=["--offload_dir", missing])
        self.refuse(66, "offload_optimizer_nvme_path", missing, settings=["--offload_optimizer_nvme_path", missing])

    def test_beside_the_run_where_no_place_is_named(self):
        output = os.path.join(self.folder, "unnamed")
        result = run("train", "--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--dataset_name", ROWS,
                     "--output_dir", output, "--max_steps", "1", "--activation_offloading", "true")
        self.expect(result, 0, "a file in output_dir = " + output, "offload_dir", stream="stderr")

    def test_no_room(self):
        """The limit on the size of a file stands for a disk that is full."""
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 * MEBIBYTE, 8 * MEBIBYTE))
        self.refuse(74, "activation_offloading", self.folder, "has no room here", "name another folder",
                    settings=["--offload_param_nvme_path", self.folder, "--activation_policy", "all", "--packing", "true",
                              "--max_length", "1024", "--bf16", "false", "--per_device_train_batch_size", "4"],
                    ranks=1, preexec_fn=small_files)


if __name__ == "__main__":
    unittest.main()

"""Runs of TRL's SFTTrainer, step by step, by this program. The traces and their tolerances: README.md here."""

import itertools
import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, run, some_of  # noqa: E402

DATA = os.path.join(FOLDER, "data")
# Arguments of the traces that ask for something which is so anyway, or which belong to the harness.
IGNORED = {"use_cpu", "logging_nan_inf_filter", "disable_tqdm", "dataloader_pin_memory", "report_to"}


def flags(trace, output):
    yield from ("--model_name_or_path", os.path.join(DATA, trace["model"]),
                "--dataset_name", os.path.join(DATA, "rows", os.path.basename(trace["data"])),
                "--output_dir", output, "--data_cache_dir", os.path.join(output, "data"))
    if "eval_data" in trace:
        yield from ("--eval_dataset_name", os.path.join(DATA, "rows", os.path.basename(trace["eval_data"])))
    for key, value in trace["args"].items():
        if key == "chat_template_path":
            value = os.path.join(DATA, value)
        if key not in IGNORED:
            yield from ("--" + key, value if isinstance(value, str) else json.dumps(value))


class Traces(TrainerTest):
    def check_step(self, ours, theirs, is_first, is_bf16, is_counted_alike, step_tokens):
        loss, norm, entropy = (1e-2, 5e-2, 1e-2) if is_bf16 else (1e-5, 1e-5, 1e-5) if is_first else (1e-4, 1e-3, 1e-3)
        self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=loss)
        self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"], delta=norm * theirs["grad_norm"])
        self.assertAlmostEqual(ours["learning_rate"], theirs["learning_rate"], delta=1e-12)
        self.assertAlmostEqual(ours["epoch"], theirs["epoch"], delta=1e-12)
        if not is_counted_alike:
            return
        self.assertAlmostEqual(ours["entropy"], theirs["entropy"], delta=entropy)
        self.assertEqual(ours["num_tokens"], theirs["num_tokens"])
        # An argmax over nearly equal logits may fall otherwise for one token.
        one_token = 1.2 / step_tokens
        self.assertAlmostEqual(ours["mean_token_accuracy"], theirs["mean_token_accuracy"],
                               delta=0.01 if is_bf16 else one_token)

    def check(self, trace, *profile, ranks=None):
        if ranks is None and trace["world_size"] > 1:
            ranks = trace["world_size"]
        with tempfile.TemporaryDirectory() as output:
            self.expect(run("train", *flags(trace, output), *profile, ranks=ranks), 0)
            metrics = read_metrics(output)
        lines = [line for line in metrics if "loss" in line]
        self.assertEqual(len(lines), len(trace["steps"]))
        self.check_evaluations([line for line in metrics if "eval_loss" in line], trace)
        arguments = trace["args"]
        self.assertAlmostEqual(metrics[-1]["train_loss"], trace["final"]["train_loss"],
                               delta=1e-2 if arguments["bf16"] else 1e-4)
        per_round = trace["world_size"] * arguments.get("per_device_train_batch_size", 8)
        # The originals weight entropy and accuracy by micro-batch, and at the uneven end of an epoch leave
        # some ranks out of what they count.
        is_weighted_alike = arguments.get("gradient_accumulation_steps", 1) == 1
        is_even = trace["world_size"] == 1 or trace["rows"] % per_round == 0
        for index, (ours, theirs) in enumerate(zip(lines, trace["steps"])):
            with self.subTest(step=index + 1):
                self.check_step(ours, theirs, index == 0, arguments["bf16"],
                                is_weighted_alike and (is_even or ours["epoch"] < 1),
                                ours["num_tokens"] - (lines[index - 1]["num_tokens"] if index else 0))

    def check_evaluations(self, lines, trace):
        self.assertEqual(len(lines), len(trace.get("evals", [])))
        # The originals take means of batches, which are means of tokens where there is one batch only.
        is_mean_of_tokens = trace["args"].get("per_device_eval_batch_size", 8) == 1000
        for ours, theirs in zip(lines, trace.get("evals", [])):
            with self.subTest(evaluation=ours["step"]):
                for key in ("step", "eval_num_tokens"):
                    self.assertEqual(ours[key], theirs[key], key)
                self.assertAlmostEqual(ours["epoch"], theirs["epoch"], delta=1e-12)
                for key, delta in (("eval_loss", 1e-4), ("eval_entropy", 1e-3), ("eval_mean_token_accuracy", 2e-3)):
                    self.assertAlmostEqual(ours[key], theirs[key], delta=delta if is_mean_of_tokens else 0.1, msg=key)

    def test_traces(self):
        for name in self.names():
            with open(os.path.join(DATA, "traces", name)) as file:
                trace = json.load(file)
            with self.subTest(trace=name):
                self.check(trace)

    def test_traces_of_two_ranks_with_everything_cut(self):
        names = [name for name in self.names() if "_ddp2" in name]
        self.assertGreater(len(names), 3)
        for name in some_of(names):
            with open(os.path.join(DATA, "traces", name)) as file:
                trace = json.load(file)
            with self.subTest(trace=name):
                self.check(trace, "--profile", "zero3")

    def test_packed_traces_of_ranks_that_share_rows(self):
        names = [name for name in self.names() if ("packing" in name or "padding_free" in name) and "_ddp2" not in name]
        self.assertGreater(len(names), 3)
        splits = ((2, "--cp_size", "2"), (2, "--sp_size", "2"), (4, "--cp_size", "2", "--sp_size", "2"))
        # Each trace under one split, in turn: cases_parity runs every split on the same batch.
        for (name, (ranks, *split)) in zip(some_of(names), itertools.cycle(splits)):
            with open(os.path.join(DATA, "traces", name)) as file:
                trace = json.load(file)
            with self.subTest(trace=name, split=split):
                self.check(trace, "--profile", "zero3", *split, ranks=ranks)

    def names(self):
        names = sorted(os.listdir(os.path.join(DATA, "traces")))
        self.assertGreater(len(names), 50)
        return names


if __name__ == "__main__":
    unittest.main()

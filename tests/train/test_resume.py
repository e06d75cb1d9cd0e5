"""A run that is killed goes on where its last checkpoint stands, at its old layout and at others."""

import json
import os
import shutil
import signal
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "..", "cli"), os.path.join(FOLDER, "..", "parity")]
from family_models import add_tokenizer, write_model  # noqa: E402
from trainer import TrainerTest, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
STEPS = 10
ROWS = [os.path.join(DATA, "rows", name) for name in ("pretokenized.jsonl", "pretokenized_mask.jsonl")]
# Samples are drawn from two datasets, with repetition. Four rows to a step, whatever the layout.
COMMON = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"),
          "--datasets", json.dumps([{"path": ROWS[0], "weight": 1}, {"path": ROWS[1], "weight": 2}]),
          "--mixture_stopping_strategy", "all_exhausted",
          "--bf16", "false", "--learning_rate", "0.002", "--max_length", "48", "--max_steps", str(STEPS),
          "--logging_steps", "1", "--save_steps", "4", "--full_determinism"]
OLD_LAYOUT = ["--profile", "zero3", "--cp_size", "2", "--sp_size", "2", "--per_device_train_batch_size", "4"]


class Resume(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.whole = os.path.join(cls.folder.name, "whole")
        cls.killed = os.path.join(cls.folder.name, "killed")
        whole = run("train", *COMMON, *OLD_LAYOUT, "--output_dir", cls.whole, ranks=4)
        assert whole.returncode == 0, whole.stderr
        # Every rank is killed when it begins to save step 8: the checkpoint of step 4 is whole by then.
        killed = run("train", *COMMON, *OLD_LAYOUT, "--output_dir", cls.killed, ranks=4,
                     RINGSHARD_FAULT="save:copy:2:kill")
        assert killed.returncode == 128 + signal.SIGKILL, killed.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def resumed(self, *layout, ranks):
        output = os.path.join(self.folder.name, self.id())
        shutil.copytree(self.killed, output)
        result = run("train", *COMMON, *layout, "--output_dir", output, ranks=ranks)
        self.expect(result, 0, "resuming from " + os.path.join(output, "checkpoint-4"))
        return output

    def expect_curve(self, output, relative):
        ours, whole = read_steps(output), read_steps(self.whole)
        self.assertEqual([line["step"] for line in ours], list(range(1, STEPS + 1)))
        self.assertEqual([line["attempt"] for line in ours], [1] * 4 + [2] * (STEPS - 4))
        for a, b in zip(ours, whole):
            for key in ("loss", "grad_norm", "entropy"):
                self.assertLessEqual(abs(a[key] - b[key]), relative * abs(b[key]), (a["step"], key))
            for key in ("learning_rate", "num_tokens", "epoch"):
                self.assertEqual(a[key], b[key], (a["step"], key))

    def tensors(self, output):
        """The bytes of every tensor and moment of the last checkpoint."""
        folder = os.path.join(output, f"checkpoint-{STEPS}")
        with open(os.path.join(folder, "manifest.json")) as file:
            ranges = json.load(file)["ranges"]
        tensors = {}
        with open(os.path.join(folder, "state.h5"), "rb") as file:
            for piece in sorted(ranges, key=lambda piece: piece["offset"]):
                file.seek(piece["offset"])
                tensors[piece["dataset"]] = tensors.get(piece["dataset"], b"") + file.read(piece["length"])
        return tensors

    def test_the_old_layout_to_the_bit(self):
        output = self.resumed(*OLD_LAYOUT, ranks=4)
        self.expect_curve(output, 0)
        self.assertEqual(self.tensors(output), self.tensors(self.whole))
        with open(os.path.join(output, "latest")) as file:
            self.assertEqual(file.read().strip(), f"checkpoint-{STEPS}")

    def test_killed_anywhere_in_a_save(self):
        # The second save is that of step 8; until it has its name the run goes on from step 4.
        for point, start in (("save:begin", 4), ("save:written", 4), ("save:name", 4), ("save:named", 8)):
            with self.subTest(point):
                output = os.path.join(self.folder.name, point)
                killed = run("train", *COMMON, *OLD_LAYOUT, "--output_dir", output, ranks=4,
                             RINGSHARD_FAULT=f"{point}:2:kill")
                self.expect(killed, 128 + signal.SIGKILL)
                self.assertEqual("checkpoint-8" in os.listdir(output), start == 8)
                result = run("train", *COMMON, *OLD_LAYOUT, "--output_dir", output, ranks=4)
                self.expect(result, 0, f"resuming from {os.path.join(output, 'checkpoint-')}{start}")
                self.assertEqual(self.tensors(output), self.tensors(self.whole))
                self.assertEqual([name for name in os.listdir(output) if ".tmp-" in name], [])

    def test_zero1_on_two_ranks(self):
        self.expect_curve(self.resumed("--profile", "zero1", "--per_device_train_batch_size", "2", ranks=2), 1e-5)

    def test_one_rank(self):
        self.expect_curve(self.resumed("--per_device_train_batch_size", "4", ranks=None), 1e-5)

    def test_gated_delta_nets_at_another_split(self):
        folder = os.path.join(self.folder.name, "states")
        model, whole, killed = (os.path.join(folder, name) for name in ("model", "whole", "killed"))
        with open(os.path.join(DATA, "family_traces", "qwen3_5.json")) as file:
            write_model(json.load(file), model)
        add_tokenizer(os.path.join(DATA, "models", "qwen2-tiny"), model)
        flags = ["train", *COMMON, "--model_name_or_path", model, "--packing", "--per_device_train_batch_size", "2", "--max_steps", "6",
                 "--save_steps", "2"]
        self.expect(run(*flags, "--output_dir", whole), 0)
        ring = run(*flags, "--profile", "zero3", "--cp_size", "2", "--output_dir", killed, ranks=2, RINGSHARD_FAULT="save:copy:2:kill")
        self.expect(ring, 128 + signal.SIGKILL)
        self.expect(run(*flags, "--profile", "zero2", "--sp_size", "2", "--output_dir", killed, ranks=2), 0, "checkpoint-2")
        ours, expected = read_steps(killed), read_steps(whole)
        self.assertEqual([line["attempt"] for line in ours], [1] * 2 + [2] * 4)
        for a, b in zip(ours, expected):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-5 * b["loss"])
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-4 * b["grad_norm"])

    def test_a_finished_run_ends_at_once(self):
        result = run("train", *COMMON, *OLD_LAYOUT, "--output_dir", self.whole, ranks=4)
        self.expect(result, 0)
        self.assertEqual(len(read_steps(self.whole)), STEPS)

    def test_what_a_killed_run_left_behind_is_whole(self):
        names = os.listdir(self.killed)
        self.assertIn("checkpoint-4", names)
        self.assertNotIn("checkpoint-8", names)
        self.assertEqual(sorted(os.listdir(os.path.join(self.killed, "checkpoint-4"))),
                         ["README.md", "chat_template.jinja", "checkpoint.json", "config.json", "generation_config.json", "manifest.json", "state.h5",
                          "tokenizer.json", "tokenizer_config.json", "trainer_state.json", "verify.json"])

    def test_ways_to_ask(self):
        elsewhere = os.path.join(self.folder.name, "elsewhere")
        self.expect(run("train", *COMMON, "--output_dir", elsewhere, "--resume_from_checkpoint", "true"), 66,
                    "holds no finished checkpoint")
        self.expect(run("train", *COMMON, "--output_dir", elsewhere, "--resume_from_checkpoint", "no/such"), 66,
                    "there is no such folder")
        begun_again = os.path.join(self.folder.name, "again")
        shutil.copytree(self.killed, begun_again)
        self.expect(run("train", *COMMON, "--per_device_train_batch_size", "4", "--output_dir", begun_again,
                        "--resume_from_checkpoint", "never"), 0)
        self.assertEqual([line["attempt"] for line in read_steps(begun_again)], [2] * STEPS)
        # What the first attempt had saved is set aside, not overwritten.
        self.assertIn("superseded-4-1", os.listdir(begun_again))


if __name__ == "__main__":
    unittest.main()

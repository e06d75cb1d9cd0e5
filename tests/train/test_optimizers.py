"""A run with Lion: one state to a weight in checkpoints, resumed to the bit, and told apart from AdamW's."""

import json
import os
import re
import shutil
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
COMMON = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"),
          "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"),
          "--bf16", "true", "--learning_rate", "2e-4", "--max_length", "48", "--max_steps", "6", "--logging_steps", "1",
          "--save_steps", "3", "--full_determinism", "--weight_decay", "0.1"]
LION = ["--optim", "lion_32bit", "--adam_beta2", "0.99"]
CONSTANT = ["--lr_scheduler_type", "constant", "--warmup_steps", "2"]
FP32 = [{"true": "false"}.get(word, word) for word in COMMON]
CUT = ["--profile", "zero3", "--cp_size", "2", "--per_device_train_batch_size", "4"]


def steps_of(output):
    return [(step["loss"], step["grad_norm"]) for step in read_steps(output)]


class Optimizers(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.whole = os.path.join(cls.folder.name, "whole")
        whole = run("train", *COMMON, *LION, *CUT, "--output_dir", cls.whole, ranks=2)
        assert whole.returncode == 0, whole.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def stopped_at_3(self):
        output = os.path.join(self.folder.name, self.id())
        shutil.copytree(self.whole, output)
        shutil.rmtree(os.path.join(output, "checkpoint-6"))
        return output

    def test_a_checkpoint_holds_one_state_to_a_weight(self):
        with open(os.path.join(self.whole, "checkpoint-6", "manifest.json")) as file:
            datasets = {piece["dataset"] for piece in json.load(file)["ranges"]}
        groups = {re.match(r"/model/|/optimizer/[^/]+/", name).group() for name in datasets}
        self.assertEqual(groups, {"/model/", "/optimizer/exp_avg/"})

    def test_a_resumed_run_makes_the_same_steps(self):
        output = self.stopped_at_3()
        self.expect(run("train", *COMMON, *LION, *CUT, "--output_dir", output, ranks=2), 0, "checkpoint-3")
        for ours, whole in zip(read_steps(output), read_steps(self.whole), strict=True):
            for key in ("loss", "grad_norm", "entropy"):
                self.assertEqual(ours[key], whole[key], (ours["step"], key))

    def test_another_optimizer_is_refused(self):
        for optimizer in ("adamw_torch", "adamw_torch_fused"):
            self.expect(run("train", *COMMON, "--optim", optimizer, "--adam_beta2", "0.99", *CUT, "--output_dir",
                            self.stopped_at_3(), ranks=2), 78, "optim: lion_32bit then, adamw_torch")
            shutil.rmtree(os.path.join(self.folder.name, self.id()))

    def test_replicas_are_compared(self):
        output = os.path.join(self.folder.name, self.id())
        self.expect(run("train", *COMMON, *LION, "--profile", "multi_gpu", "--per_device_train_batch_size", "2", "--output_dir", output,
                        "--check_replicas_every", "1", ranks=2), 0)

    def test_an_optimizer_that_is_not_there(self):
        for name in ("rmsprop_bnb", "schedule_free_radam"):
            self.expect(run("train", *COMMON, "--optim", name, "--output_dir", os.path.join(self.folder.name, "no")), 78,
                        f"optim = {name}")

    def losses(self, name, *flags, ranks=None, rows=4):
        output = os.path.join(self.folder.name, self.id() + name)
        self.expect(run("train", *FP32, *flags, "--per_device_train_batch_size", str(rows), "--output_dir", output, ranks=ranks), 0)
        return [step["loss"] for step in read_steps(output)]

    def expect_close(self, ours, theirs, most, what):
        self.assertEqual(len(ours), len(theirs))
        for step, (mine, other) in enumerate(zip(ours, theirs)):
            self.assertLess(abs(mine - other), most * other, (what, step))

    def test_layouts_and_resumes_in_another_layout_change_nothing(self):
        zero3 = ["--profile", "zero3", "--cp_size", "2"]
        for name, most, *flags in (("muon", 1e-5, "--optim_args", "adjust_lr_fn=match_rms_adamw"), ("adamw_8bit", 2e-4),
                                   ("lion_8bit", 1e-3), ("sgd", 1e-5, "--optim_args", "momentum=0.9,nesterov=True"), ("sgd", 1e-5),
                                   ("adafactor", 1e-5), ("rmsprop", 1e-5), ("schedule_free_adamw", 1e-5, *CONSTANT)):
            with self.subTest(optim=name):
                flags = ["--optim", name, *flags]
                alone = self.losses(name + "alone" + str(len(flags)), *flags)
                self.expect_close(self.losses(name + "zero1" + str(len(flags)), *flags, "--profile", "zero1", ranks=2, rows=2), alone, most, "zero1")
                if name in ("adafactor", "schedule_free_adamw"):
                    self.expect_close(self.losses(name + "sp", *flags, "--profile", "zero3", "--sp_size", "2", ranks=2), alone, most, "sp")
                output = os.path.join(self.folder.name, self.id() + name + "alone" + str(len(flags)))
                shutil.rmtree(os.path.join(output, "checkpoint-6"))
                self.expect(run("train", *FP32, *flags, *zero3, "--per_device_train_batch_size", "4", "--output_dir", output, ranks=2),
                            0, "checkpoint-3")
                self.expect_close([step["loss"] for step in read_steps(output)], alone, most, "resumed")

    def test_replicas_of_other_optimizers_are_compared(self):
        for name, *flags in (("muon",), ("adamw_8bit",), ("adafactor",), ("schedule_free_adamw", *CONSTANT)):
            self.losses(name, "--optim", name, *flags, "--profile", "zero2", "--dp_replicate_size", "2", "--dp_shard_size", "1",
                        "--check_replicas_every", "1", ranks=2, rows=2)

    def test_a_hundred_steps_in_eight_bits_are_those_of_fp32(self):
        long = ["--max_steps", "100", "--save_strategy", "no"]
        for name, other in (("adamw_8bit", "adamw_torch"),):
            eight = self.losses(name, "--optim", name, *long)
            self.expect_close(eight, self.losses(other, "--optim", other, *long), 2e-3, name)

    def test_evaluations_and_files_have_the_average_and_change_no_step(self):
        """In bf16 and at every profile: with evaluations the steps are those without, to the bit, and so is a resumed run."""
        evaluation = ["--eval_strategy", "steps", "--eval_steps", "2", "--eval_dataset_name", COMMON[3], "--per_device_eval_batch_size", "4"]
        for profile in ("multi_gpu", "zero1", "zero3"):
            flags = [*COMMON, "--optim", "schedule_free_adamw", *CONSTANT, "--profile", profile, "--per_device_train_batch_size", "2"]
            plain, evaluated = (os.path.join(self.folder.name, self.id() + profile + kind) for kind in ("plain", "evaluated"))
            self.expect(run("train", *flags, "--output_dir", plain, ranks=2), 0)
            self.expect(run("train", *flags, *evaluation, "--output_dir", evaluated, ranks=2), 0)
            self.assertEqual(steps_of(plain), steps_of(evaluated), profile)
            with open(os.path.join(plain, "model.safetensors"), "rb") as one, open(os.path.join(evaluated, "model.safetensors"), "rb") as two:
                self.assertEqual(one.read(), two.read(), profile)
            # The model of the run, evaluated by itself.
            again = plain + "again"
            self.expect(run("train", "--model_name_or_path", plain, *COMMON[2:4], "--bf16", "true", "--max_length", "48", *evaluation[4:],
                            "--do_predict", "--max_steps", "1", "--learning_rate", "0", "--save_strategy", "no", "--output_dir", again), 0)
            with open(os.path.join(again, "predict_results.json")) as file:
                last = [line["eval_loss"] for line in read_metrics(evaluated) if "eval_loss" in line][-1]
                self.assertAlmostEqual(json.load(file)["predict_loss"], last, delta=1e-5 * last, msg=profile)
            shutil.rmtree(os.path.join(plain, "checkpoint-6"))
            self.expect(run("train", *flags, "--output_dir", plain, ranks=2), 0, "checkpoint-3")
            self.assertEqual(steps_of(plain), steps_of(evaluated), profile)

    def test_schedule_free_optimizers_refuse_schedules(self):
        for words, *flags in (("lr_scheduler_type constant", "--lr_scheduler_type", "cosine"),
                              ("whole steps of warm-up", *CONSTANT[:2], "--warmup_steps", "0.1"),
                              ("optimizer_state_dtype fp32", *CONSTANT, "--optimizer_state_dtype", "bf16"),
                              ("beta: this optim has r, weight_lr_power", *CONSTANT, "--optim_args", "beta=1")):
            self.refused(words, *FP32, "--optim", "schedule_free_adamw", *flags)
        self.refused("optimizer_state_dtype fp32", *FP32, "--optim", "adafactor", "--optimizer_state_dtype", "bf16")

    def test_updates_by_names(self):
        groups = json.dumps([{"pattern": "embed_tokens", "lr": 0}, {"pattern": "mlp", "optim": "sgd", "lr": 0.5}])
        self.losses("", "--lr_groups", groups, "--profile", "zero3", ranks=2, rows=2)
        for wrong, words in (([{"pattern": "embed_token\\.", "lr": 1}], "matches no trained weight; the nearest are"),
                             ([{"pattern": "mlp", "lr": 1}, {"pattern": "mlp.up", "lr": 1}], "has a rule before it"),
                             ([{"pattern": "q_proj", "lr": 1}], "one matrix product"),
                             ([{"pattern": "mlp"}], "the entry sets nothing"),
                             ([{"pattern": "norm", "optim": "muon"}],
                              "pattern norm: its optim updates matrices between the embedding and the head, and none of the weights")):
            self.refused(words, *FP32, "--lr_groups", json.dumps(wrong))

    def refused(self, words, *flags):
        self.expect(run("train", *flags, "--output_dir", os.path.join(self.folder.name, "no")), 78, words)

    def test_muon_for_no_matrix(self):
        words = "optim = muon [command line]: updates matrices between the embedding and the head, and none of the trained weights is one"
        rest = json.dumps([{"pattern": "layers.*proj", "optim": "sgd"}])
        for flags in (("--train_only", r"norm\.weight"), ("--train_only", "embed_tokens"), ("--lr_groups", rest)):
            self.refused(words, *FP32, "--optim", "muon", *flags)


if __name__ == "__main__":
    unittest.main()

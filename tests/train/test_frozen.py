"""Runs with frozen weights: checkpoints name them by hash, runs go on with them, and models hold their bits."""

import json
import os
import shutil
import unittest

from stopped_run import CUT, MODEL, ROWS, StoppedRunTest
from devices import HOST
from trainer import read_metrics, read_steps, run

FREEZE = ["--freeze", r"embed_tokens|layers\.0\.|layers\.1\.mlp"]


def is_frozen(name):
    return name == "model.embed_tokens.weight" or ".layers.0." in name or ".layers.1.mlp." in name


def read_model(folder):
    """The bytes of every tensor, and where they lie in the file."""
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start, content = file.tell(), file.read()
    header.pop("__metadata__", None)
    return ({name: content[slice(*entry["data_offsets"])] for name, entry in header.items()},
            {name: start + entry["data_offsets"][0] for name, entry in header.items()})


class Frozen(StoppedRunTest):
    CHOICE = FREEZE

    def changed_model(self, tensor):
        """The model with another bit in one tensor."""
        folder = self.path(tensor)
        shutil.copytree(MODEL, folder)
        with open(os.path.join(folder, "model.safetensors"), "r+b") as file:
            file.seek(read_model(folder)[1][tensor] + 4)
            bits = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([bits[0] ^ 1]))
        return folder

    def inspect(self, checkpoint):
        result = run("inspect", checkpoint, "--json")
        self.expect(result, 0)
        return json.loads(result.stdout)

    def expect_frozen_bits(self, folder):
        base, written = read_model(MODEL)[0], read_model(folder)[0]
        self.assertEqual(base.keys(), written.keys())
        for name, content in written.items():
            self.assertEqual(content == base[name], is_frozen(name), name)

    def test_a_checkpoint_names_what_it_does_not_hold(self):
        found = self.inspect(os.path.join(self.whole, "checkpoint-6"))
        names = set(read_model(MODEL)[0])
        self.assertEqual(set(found["frozen"]["tensors"]), {name for name in names if is_frozen(name)})
        self.assertEqual(found["frozen"]["base"], self.model)
        trained = {name for name in names if not is_frozen(name)}
        self.assertEqual(set(found["datasets"]), {group + name for name in trained for group in
                                                  ("/model/", "/optimizer/exp_avg/", "/optimizer/exp_avg_sq/")})
        self.expect(run("inspect", os.path.join(self.whole, "checkpoint-6")), 0, "frozen tensors, which are not in the checkpoint",
                    stream="stdout")
        # The hash is that of the tensor, however it is cut, and in whatever type the run computes.
        other = self.path("other")
        self.expect(self.train(other, "--bf16", "false", "--max_steps", "3"), 0)
        self.assertEqual(self.inspect(os.path.join(other, "checkpoint-3"))["frozen"], found["frozen"])

    def test_models_hold_the_bits_of_what_is_frozen(self):
        self.expect_frozen_bits(self.whole)
        self.expect_frozen_bits(os.path.join(self.whole, "checkpoint-6"))
        exported = self.path("exported")
        self.expect(run("export", os.path.join(self.whole, "checkpoint-6"), "--dtype", "float32", "--output_dir", exported, ranks=2), 0)
        self.assertEqual(read_model(exported)[0], read_model(self.whole)[0])
        self.assertEqual(read_model(exported)[0], read_model(os.path.join(self.whole, "checkpoint-6"))[0])

    def test_export_from_another_place_of_the_base(self):
        checkpoint = os.path.join(self.whole, "checkpoint-6")
        export = ("export", checkpoint, "--dtype", "float32", "--output_dir")
        tensor = "model.layers.0.mlp.up_proj.weight"
        self.expect(run(*export, self.path("bad"), "--model_name_or_path", self.changed_model(tensor)), 65, tensor, self.model)
        self.expect(run(*export, self.path("good"), "--model_name_or_path", MODEL), 0)
        self.expect_frozen_bits(self.path("good"))

    def test_going_on_to_the_bit(self):
        output = self.stopped_at_3()
        self.expect(self.train(output, *CUT, "--save_model_in_checkpoints", "true", ranks=2), 0, "checkpoint-3")
        for ours, whole in zip(read_steps(output), read_steps(self.whole), strict=True):
            for key in ("loss", "grad_norm", "entropy"):
                self.assertEqual(ours[key], whole[key], (ours["step"], key))
        self.assertEqual(read_model(output)[0], read_model(self.whole)[0])

    def test_killed_in_a_save(self):
        output = self.path("out")
        self.train(output, *CUT, ranks=2, RINGSHARD_FAULT="save:written:2:kill")
        self.expect(self.train(output, *CUT, ranks=2), 0, "checkpoint-3")
        self.assertEqual(read_model(output)[0], read_model(self.whole)[0])

    def test_going_on_in_other_layouts(self):
        for profile, ranks in (("multi_gpu", None), ("fsdp2", 2)):
            output = self.stopped_at_3(profile)
            rows = "4" if ranks is None else "2"
            self.expect(self.train(output, "--profile", profile, "--per_device_train_batch_size", rows, ranks=ranks), 0,
                        "checkpoint-3")
            for ours, whole in zip(read_steps(output), read_steps(self.whole), strict=True):
                self.assertAlmostEqual(ours["loss"], whole["loss"], delta=1e-2)
            self.expect_frozen_bits(output)

    def test_another_base_is_refused(self):
        output = self.stopped_at_3()
        before = sorted(os.listdir(output))
        tensor = "model.layers.0.input_layernorm.weight"
        changed = self.changed_model(tensor)
        self.expect_one_message(self.train(output, *CUT, model=changed, ranks=2), 65, tensor, changed, self.model, "model_name_or_path")
        self.assertEqual(sorted(os.listdir(output)), before)
        # What is trained comes from the checkpoint.
        trained = self.changed_model("model.layers.2.input_layernorm.weight")
        self.expect(self.train(output, *CUT, model=trained, ranks=2), 0, "checkpoint-3")
        self.assertEqual(read_model(output)[0], read_model(self.whole)[0])

    def test_other_roles_are_refused(self):
        output = self.stopped_at_3()
        before = sorted(os.listdir(output))
        for freeze, words in ((["--freeze", r"embed_tokens|layers\.0\."], ("mlp.gate_proj.weight was frozen", "have it trained now")),
                              ([], ("model.embed_tokens.weight was frozen", "have it trained now")),
                              (["--freeze", FREEZE[1] + "|norm"], ("norm.weight was trained", "have it frozen now")),
                              (["--freeze", FREEZE[1] + "|nothing"], ("freeze: ", "then"))):
            with self.subTest(freeze):
                self.expect_one_message(self.train(output, *CUT, choice=freeze, ranks=2), 78, *words)
        self.assertEqual(sorted(os.listdir(output)), before)

    def test_a_checkpoint_as_model(self):
        checkpoint = os.path.join(self.whole, "checkpoint-6")
        one_step = ("--max_steps", "1", "--save_steps", "1", "--learning_rate", "0", "--bf16", "false")
        # All is trained from here on: what was frozen comes from the base.
        all_trained = self.path("all")
        self.expect(self.train(all_trained, *one_step, choice=[], model=checkpoint), 0)
        self.assertEqual(read_model(all_trained)[0], read_model(self.whole)[0])
        self.assertEqual(self.inspect(os.path.join(all_trained, "checkpoint-1"))["frozen"]["tensors"], {})
        # Other weights are frozen: the base is the checkpoint, and what lies below it.
        others = self.path("others")
        self.expect(self.train(others, *one_step, choice=["--train_only", r"layers\.0\."], model=checkpoint, ranks=2), 0)
        self.assertEqual(read_model(others)[0], read_model(self.whole)[0])
        exported = self.path("exported")
        self.expect(run("export", os.path.join(others, "checkpoint-1"), "--dtype", "float32", "--output_dir", exported), 0)
        self.assertEqual(read_model(exported)[0], read_model(self.whole)[0])

    def test_the_best_model_and_a_rewind(self):
        output = self.path("best")
        self.expect(self.train(output, *CUT, "--eval_strategy", "steps", "--eval_steps", "3", "--eval_dataset_name", ROWS,
                               "--load_best_model_at_end", ranks=2), 0)
        self.expect_frozen_bits(output)
        output = self.path("rewind")
        self.expect(self.train(output, *CUT, "--bf16", "false", "--on_nan", "rewind", ranks=2, RINGSHARD_FAULT="weights:5:nan@0"), 0,
                    "the run goes back to its newest checkpoint")
        self.expect_frozen_bits(output)

    def test_the_plan(self):
        def plan(*flags):
            result = run("plan", "--world", "2", "--gpu", HOST, "--profile", "zero3", "--model_name_or_path", MODEL, "--json", *flags)
            self.expect(result, 0)
            return json.loads(result.stdout)

        everything, some = plan("--bf16", "true"), plan("--bf16", "true", *FREEZE)
        for kind in ("weights", "gradients", "optimizer"):
            self.assertLess(some["memory_bytes"][kind], everything["memory_bytes"][kind])
        sizes = {name: len(content) // 4 for name, content in read_model(MODEL)[0].items()}
        trained = sum(size for name, size in sizes.items() if not is_frozen(name))
        self.assertAlmostEqual(some["checkpoint_bytes"], 12 * trained, delta=12 * 2048)
        written = plan("--bf16", "true", *FREEZE, "--save_model_in_checkpoints", "true")
        self.assertAlmostEqual(written["checkpoint_bytes"], 12 * trained + 4 * sum(sizes.values()), delta=16 * 4096)
        measured = read_metrics(self.whole)[0]
        planned = plan("--bf16", "true", *FREEZE, *CUT[2:], "--max_length", "48")
        for kind in ("weights", "optimizer"):
            self.assertEqual(planned["memory_bytes"][kind], measured[f"memory_{kind}_bytes"], kind)

    def test_settings_that_make_no_sense(self):
        for freeze, words in ((["--freeze", "layers["], ("freeze = layers[", "is no regular expression")),
                              (["--freeze", "([a-z._0-9]+)+[!?]"], ("freeze = ([a-z._0-9]+)+[!?]: takes too many steps on the name",)),
                              (["--freeze", r"layer\.1\.mlp"], ("matches no tensor", "the nearest are model.layers.1.mlp")),
                              (["--train_only", "lm_head"], ("train_only = lm_head", "matches no tensor")),
                              (["--freeze", "."], ("nothing is left to train",)),
                              (["--freeze", "norm", "--train_only", "norm"], ("nothing is left to train",)),
                              (["--freeze", "q_proj"], ("q_proj.weight would be frozen and", "k_proj.weight trained",
                                                        "v_proj.weight")),
                              (["--freeze", "embed_tokens", "--added_tokens", ",".join(f"<new-{i}>" for i in range(40))], ("new rows",))):
            with self.subTest(freeze):
                self.expect(self.train(self.path("no"), choice=freeze), 78, *words)
                self.assertFalse(os.path.exists(os.path.join(self.path("no"), "attempt-1")))


if __name__ == "__main__":
    unittest.main()

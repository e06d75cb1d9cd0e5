"""trainer export: transformers loads what it wrote and computes the same, and would have written the same bytes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from beside_transformers import DATA, FOLDER, MODELS as FOLDERS, TrainerTest, read_config, run

import h5py
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

SCRIPT = os.path.join(FOLDER, "..", "..", "scripts", "h5_to_safetensors.py")
MODELS = {"tied": os.path.join(FOLDERS, "qwen2-tiny"), "untied": os.path.join(FOLDERS, "llama3-tiny"),
          "fused": os.path.join(FOLDERS, "phi3-tiny"), "norms behind": os.path.join(FOLDERS, "olmo2-tiny")}
IDS = torch.tensor([[5, 17, 99, 3, 250, 44, 8, 120, 301, 77]])


def attempt_to_train(model, output, *flags, ranks=2, **variables):
    return run("train", "--model_name_or_path", model, "--profile", "zero3", "--dataset_name",
               os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false", "--learning_rate", "0.002",
               "--max_length", "48", "--max_steps", "2", "--save_steps", "1", "--output_dir", output, *flags,
               ranks=ranks, **variables)


def train(*arguments, **options):
    result = attempt_to_train(*arguments, **options)
    assert result.returncode == 0, result.stderr


def their_model(model, checkpoint):
    """The trained model as transformers holds it, from the weights in state.h5."""
    theirs = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    with h5py.File(os.path.join(checkpoint, "state.h5")) as file:
        state = {name: torch.from_numpy(dataset[()]) for name, dataset in file["model"].items()}
    theirs.load_state_dict(state, strict=False)
    return theirs


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def weight_files(folder):
    files = {}
    for name in os.listdir(folder):
        if name.startswith("model"):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
    return files


class Export(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.runs = {}
        for kind, model in MODELS.items():
            cls.runs[kind] = os.path.join(cls.folder.name, kind)
            train(model, cls.runs[kind])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def export(self, checkpoint, *flags, ranks=None):
        self.folder_count = getattr(self, "folder_count", 0) + 1
        folder = os.path.join(self.folder.name, f"{self.id()}-{self.folder_count}")
        self.expect(run("export", checkpoint, "--output_dir", folder, *flags, ranks=ranks), 0, "wrote " + folder,
                    stream="stdout")
        return folder

    def test_their_bytes_and_their_logits(self):
        """Every form of files of one model, and two of each other one: a form does not depend on the tensors."""
        forms = (("float32", "5GB", 3), ("bfloat16", "60KB", 3), ("float32", "100KB", 1), ("bfloat16", "5GB", None))
        for number, (kind, model) in enumerate(MODELS.items()):
            checkpoint = os.path.join(self.runs[kind], "checkpoint-2")
            theirs = their_model(model, checkpoint)
            for dtype, size, ranks in forms if kind == "tied" else forms[2 * (number % 2):][:2]:
                with self.subTest(kind=kind, dtype=dtype, size=size, ranks=ranks):
                    ours = self.export(checkpoint, "--dtype", dtype, "--max_shard_size", size, ranks=ranks)
                    same = theirs if dtype == "float32" else their_model(model, checkpoint).to(torch.bfloat16)
                    with tempfile.TemporaryDirectory() as folder:
                        same.save_pretrained(folder, max_shard_size=size)
                        self.assertEqual(weight_files(ours), weight_files(folder))
                        if dtype == "bfloat16":  # .to() rounds what no file holds, too
                            same = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
                        self.assertEqual("model.safetensors.index.json" in os.listdir(ours), size != "5GB")
                    config = read_config(model)
                    for key in {"dtype", "torch_dtype"} & {"dtype", *config}:
                        config[key] = dtype
                    self.assertEqual(read_config(ours), config)
                    loaded = AutoModelForCausalLM.from_pretrained(ours, attn_implementation="eager")
                    self.assertEqual(loaded.dtype, getattr(torch, dtype))
                    self.assertTrue(torch.equal(logits(loaded), logits(same)))
                    self.assertEqual(AutoTokenizer.from_pretrained(ours)("ab c")["input_ids"],
                                     AutoTokenizer.from_pretrained(model)("ab c")["input_ids"])

    def test_numbers_in_names_are_counted(self):
        """Twelve blocks: block 10 comes behind block 9, in files of a few tensors each."""
        model = os.path.join(self.folder.name, "deep")
        config = LlamaConfig(vocab_size=512, hidden_size=32, intermediate_size=48, num_hidden_layers=12,
                             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
        torch.manual_seed(3)
        AutoModelForCausalLM.from_config(config).save_pretrained(model)
        output = os.path.join(self.folder.name, "deep-run")
        train(model, output)
        ours = self.export(output, "--max_shard_size", "40000", ranks=3)
        with tempfile.TemporaryDirectory() as folder:
            their_model(model, os.path.join(output, "checkpoint-2")).save_pretrained(folder, max_shard_size=40000)
            self.assertEqual(weight_files(ours), weight_files(folder))

    def test_a_run_and_its_newest_good_checkpoint(self):
        output = os.path.join(self.folder.name, "damaged")
        shutil.copytree(self.runs["tied"], output)
        newest, older = (os.path.join(output, name) for name in ("checkpoint-2", "checkpoint-1"))
        self.assertEqual(weight_files(self.export(output, ranks=2)), weight_files(self.export(newest)))
        self.assertNotIn("attempt-2", os.listdir(output))  # looking is no start of the run

        def flip(folder, dataset):
            with open(os.path.join(folder, "manifest.json")) as file:
                place = next(r["offset"] for r in json.load(file)["ranges"] if r["dataset"] == dataset)
            with open(os.path.join(folder, "state.h5"), "r+b") as file:
                file.seek(place)
                byte = file.read(1)[0]
                file.seek(place)
                file.write(bytes([byte ^ 1]))

        flip(newest, "/optimizer/exp_avg/model.norm.weight")  # moments are not wanted
        whole = weight_files(self.export(newest))
        flip(newest, "/model/model.norm.weight")
        folder = os.path.join(self.folder.name, "from-older")
        self.expect(run("export", output, "--output_dir", folder, ranks=2), 0, "warning: checkpoint left out",
                    "model.norm.weight is not what was written")
        self.assertNotEqual(weight_files(folder), whole)
        self.assertEqual(weight_files(folder), weight_files(self.export(older)))
        self.expect_one_message(run("export", newest, "--output_dir", folder + "-no", ranks=2), 65,
                                "model.norm.weight is not what was written")
        os.remove(os.path.join(older, "config.json"))
        self.expect_one_message(run("export", output, "--output_dir", folder + "-no", ranks=2), 65,
                                "no checkpoint of this run is good", "config.json is missing")
        self.assertFalse(os.path.exists(folder + "-no"))

    def test_wrong_wishes(self):
        checkpoint = os.path.join(self.runs["tied"], "checkpoint-2")
        unfinished = os.path.join(self.folder.name, "checkpoint-3.tmp-1")
        os.makedirs(unfinished)
        to = ("--output_dir", os.path.join(self.folder.name, "never"))
        for flags, code, words in (
            ((), 64, "name what to export"),
            ((checkpoint,), 78, "output_dir is not set"),
            (("no/such", *to), 66, "no/such: there is no such folder"),
            ((unfinished, *to), 65, "it was never finished"),
            ((FOLDER, *to), 65, "is neither the folder of a checkpoint nor that of a run"),
            ((checkpoint, *to, "--dtype", "float16"), 78, "models are written as float32 or bfloat16"),
            ((checkpoint, *to, "--max_shard_size", "5 gigs"), 78, "max_shard_size = 5 gigs"),
            ((checkpoint + "/", "--output_dir", checkpoint), 78, "is the checkpoint itself"),
            ((checkpoint, "--output_dir", "/proc/no"), 74, "/proc/no cannot be made"),
        ):
            with self.subTest(words):
                self.expect_one_message(run("export", *flags, ranks=2), code, words)

    def test_the_script_for_people_without_the_program(self):
        for kind, dtype in (("tied", "bfloat16"), ("untied", "float32")):
            checkpoint = os.path.join(self.runs[kind], "checkpoint-2")
            ours = self.export(checkpoint, "--dtype", dtype, ranks=2)
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([sys.executable, SCRIPT, checkpoint, folder, "--dtype", dtype], check=True,
                               capture_output=True)
                self.assertEqual(weight_files(folder), weight_files(ours))
                self.assertEqual(sorted(os.listdir(folder)), sorted(set(os.listdir(ours)) - {"export.json", "verify.json"}))
                self.assertEqual(read_config(folder), read_config(ours))
        for source in (self.folder.name, checkpoint):
            failed = subprocess.run([sys.executable, SCRIPT, source, source], capture_output=True, text=True)
            self.assertEqual(failed.returncode, 1)
            self.assertRegex(failed.stderr, "there is no such file|is the checkpoint itself")

    def test_models_are_whole_after_the_way_through_training(self):
        """The exported model trains on: what comes out can go in."""
        folder = self.export(self.runs["untied"], "--max_shard_size", "200KB")
        train(folder, os.path.join(self.folder.name, "again"), "--learning_rate", "0")
        again = self.export(os.path.join(self.folder.name, "again"), "--max_shard_size", "200KB")
        self.assertEqual(weight_files(again), weight_files(folder))
        self.assertEqual(read_config(again), read_config(folder))

    def test_a_checkpoint_is_a_model_for_a_new_run(self):
        one_file = os.path.join(self.runs["untied"], "checkpoint-2")
        by_nodes = os.path.join(self.folder.name, "by-nodes")
        train(MODELS["untied"], by_nodes, "--fsdp_state_dict_type", "SHARDED_STATE_DICT", RINGSHARD_TEST_RANKS_PER_NODE="1")
        self.assertIn("state-00002-of-00002.h5", os.listdir(os.path.join(by_nodes, "checkpoint-2")))
        for kind, checkpoint in (("untied", one_file), ("untied", os.path.join(by_nodes, "checkpoint-2") + "/"),
                                 ("tied", os.path.join(self.runs["tied"], "checkpoint-2"))):
            with self.subTest(checkpoint), tempfile.TemporaryDirectory() as folder:
                results = []
                for name, model in (("from-model", self.export(self.runs[kind])), ("from-checkpoint", checkpoint)):
                    results.append(os.path.join(folder, name))
                    train(model, results[-1], "--full_determinism")
                self.assertEqual(*(weight_files(result) for result in results))
                self.assertEqual(*(read_config(result) for result in results))
                self.assertNotEqual(weight_files(results[1]), weight_files(self.runs[kind]))
        damaged = os.path.join(self.folder.name, "damaged-model", "checkpoint-2")
        shutil.copytree(one_file, damaged)
        with open(os.path.join(damaged, "state.h5"), "r+b") as file:
            file.truncate(9999)
        self.expect_one_message(attempt_to_train(damaged, damaged + "-out"), 65, "state.h5 has 9999 bytes instead of")

    def test_the_folder_of_a_run_that_has_not_ended(self):
        run_folder = os.path.join(self.folder.name, "not-ended")
        shutil.copytree(self.runs["tied"], run_folder)
        for name in ("model.safetensors", "config.json"):
            os.remove(os.path.join(run_folder, name))
        self.expect_one_message(attempt_to_train(run_folder, run_folder + "-out"), 66,
                                "is the folder of a run that has not written its model yet",
                                os.path.join(run_folder, "checkpoint-2"))

    def test_transformers_opens_a_checkpoint(self):
        for dtype, flags in (("bfloat16", ["--fsdp_state_dict_type", "SHARDED_STATE_DICT"]), ("float32", ["--hdf5_io", "mpio"])):
            with self.subTest(dtype):
                output = os.path.join(self.folder.name, "opened-" + dtype)
                train(MODELS["tied"], output, "--save_model_in_checkpoints", "--save_total_limit", "1", "--dtype", dtype, *flags)
                self.assertNotIn("checkpoint-1", os.listdir(output))
                checkpoint = os.path.join(output, "checkpoint-2")
                self.assertEqual(weight_files(checkpoint), weight_files(output))
                loaded = AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager")
                self.assertEqual(loaded.dtype, getattr(torch, dtype))
                finished = AutoModelForCausalLM.from_pretrained(output, attn_implementation="eager")
                self.assertTrue(torch.equal(logits(loaded), logits(finished)))
                self.assertEqual(AutoTokenizer.from_pretrained(checkpoint)("ab c")["input_ids"],
                                 AutoTokenizer.from_pretrained(MODELS["tied"])("ab c")["input_ids"])
                os.remove(os.path.join(checkpoint, "model.safetensors"))  # a copy: the checkpoint is whole without it
                self.expect(run("inspect", checkpoint), 0)

    def test_a_checkpoint_of_transformers(self):
        from transformers import Trainer, TrainingArguments
        theirs = os.path.join(self.folder.name, "theirs")
        rows = [{"input_ids": IDS[0], "labels": IDS[0]}] * 2
        trainer = Trainer(AutoModelForCausalLM.from_pretrained(MODELS["tied"]),
                          TrainingArguments(theirs, max_steps=1, save_steps=1, report_to=[], disable_tqdm=True, use_cpu=True),
                          train_dataset=rows)
        trainer.train()
        AutoTokenizer.from_pretrained(MODELS["tied"]).save_pretrained(os.path.join(theirs, "checkpoint-1"))
        named = attempt_to_train(MODELS["tied"], theirs + "-out", "--resume_from_checkpoint", os.path.join(theirs, "checkpoint-1"))
        self.expect_one_message(named, 65, "is a checkpoint of transformers or TRL", "--resume_from_checkpoint never")
        self.expect_one_message(attempt_to_train(MODELS["tied"], theirs), 65, "is a checkpoint of transformers or TRL")
        # What the message advises.
        train(os.path.join(theirs, "checkpoint-1"), theirs, "--resume_from_checkpoint", "never")

    def test_the_type_of_the_source(self):
        for dtype in ("bfloat16", "float32"):
            source = self.export(self.runs["tied"], "--dtype", dtype)
            output = os.path.join(self.folder.name, "type-" + dtype)
            train(source, output, "--dtype", "auto")
            self.assertEqual(read_config(output)["dtype"], dtype)
            self.assertEqual(AutoModelForCausalLM.from_pretrained(output).dtype, getattr(torch, dtype))

    def test_the_model_card(self):
        from huggingface_hub import ModelCard
        file = os.path.join(self.runs["tied"], "README.md")
        card = ModelCard.load(file)
        self.assertEqual((card.data.library_name, card.data.model_name), ("transformers", "tied"))
        self.assertIn("| learning_rate | 0.002 |", card.text)
        self.assertIn("`qwen2-tiny`", card.text)
        self.assertNotIn(DATA, card.text)  # where it lay here says nothing elsewhere
        output = os.path.join(self.folder.name, "with-a-card")
        shutil.copytree(self.runs["tied"], output)
        train(MODELS["tied"], output, "--max_steps", "1", "--resume_from_checkpoint", "never")
        with open(os.path.join(output, "README.md")) as file:
            self.assertIn("| max_steps | 1 |", file.read())
        with open(os.path.join(output, "README.md"), "w") as file:
            file.write("mine")
        train(MODELS["tied"], output, "--resume_from_checkpoint", "never")
        with open(os.path.join(output, "README.md")) as file:
            self.assertEqual(file.read(), "mine")


if __name__ == "__main__":
    unittest.main()

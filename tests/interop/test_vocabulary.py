"""Tokens that a model lacks: TRL's clone_chat_template and transformers' resize_token_embeddings, here and there."""

import json
import os
import shutil
import tempfile
import unittest

from beside_transformers import MODELS, TrainerTest, read_config, read_metrics, read_steps, run
from devices import HOST

import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AddedToken, AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer, clone_chat_template

TIED, UNTIED = os.path.join(MODELS, "qwen2-tiny"), os.path.join(MODELS, "llama3-tiny")
EMBEDDINGS = ("model.embed_tokens.weight", "lm_head.weight")
TEMPLATE = "{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}{{ eos_token }}{% endfor %}"
CHATS = [[{"role": "user", "content": f"How many {thing} are there? <extra_id_3>"},
          {"role": "assistant", "content": f"There are {number} {thing}."}]
         for number, thing in enumerate(("windows", "clocks", "benches", "doors", "bridges", "lamps", "trees", "boats"))]
STEP = ["--bf16", "false", "--logging_steps", "1", "--max_length", "64", "--per_device_train_batch_size", "4"]


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


class Vocabulary(TrainerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.rows = self.path("chats.jsonl")
        with open(self.rows, "w") as file:
            file.writelines(json.dumps({"messages": chat}) + "\n" for chat in CHATS)
        self.output = self.path("out")

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_source(self, count):
        """A tokenizer with a template, an end of a turn of its own, and tokens that nothing uses."""
        source = AutoTokenizer.from_pretrained(TIED)
        source.add_tokens([AddedToken("<|turn|>", special=True, normalized=False), AddedToken("<|eot|>", special=True)])
        source.add_tokens([f"<|reserved_{i}|>" for i in range(count)])
        source.eos_token = "<|eot|>"
        source.chat_template = TEMPLATE
        source.save_pretrained(self.path("source"))
        return self.path("source")

    def train(self, model, *flags, ranks=None, output=None):
        result = run("train", "--model_name_or_path", model, "--dataset_name", self.rows, *STEP, "--output_dir",
                     output or self.output, *flags, ranks=ranks)
        self.expect(result, 0)
        return result

    def check_tokenizer(self, folder, theirs):
        ours = AutoTokenizer.from_pretrained(folder)
        self.assertEqual(ours.get_vocab(), theirs.get_vocab())
        self.assertEqual(ours.added_tokens_decoder, theirs.added_tokens_decoder)
        self.assertEqual((ours.eos_token, ours.chat_template), (theirs.eos_token, theirs.chat_template))
        for chat in CHATS:
            self.assertEqual(ours.apply_chat_template(chat)["input_ids"], theirs.apply_chat_template(chat)["input_ids"])

    def test_a_template_with_tokens_of_its_own(self):
        """The same rows, tokens and ids as TRL; new rows begin at the mean about which transformers draws them."""
        source = self.make_source(30)
        for model in (TIED, UNTIED):
            with self.subTest(model):
                their_model, their_tokenizer, added = clone_chat_template(load(model), AutoTokenizer.from_pretrained(model), source)
                rows, old_rows = their_model.vocab_size, read_config(model)["vocab_size"]
                self.assertGreater(rows, old_rows)
                self.assertGreater(len(added), 32)
                untouched = ["--chat_template_path", source, "--learning_rate", "0", "--max_steps", "1", "--save_steps", "1"]
                layouts = [([], None), (["--profile", "zero3", "--cp_size", "2"], 2)]
                if model == TIED:  # the other model gets its rows by the same code, in two tensors
                    layouts += [(["--profile", "zero3"], 3),
                                (["--profile", "fsdp2", "--sp_size", "2", "--per_device_train_batch_size", "2"], 4)]
                steps, weights = [], []
                for flags, ranks in layouts:
                    shutil.rmtree(self.output, ignore_errors=True)
                    if ranks == 3:  # shares of another size; the batch is another one then
                        flags = [*flags, "--per_device_train_batch_size", "1"]
                    result = self.train(model, *untouched, *flags, ranks=ranks)
                    self.assertEqual(result.stderr.count(f"the vocabulary has {rows} rows in place of {old_rows}"), 1)
                    steps.append(read_steps(self.output)[0])
                    weights.append(load_file(os.path.join(self.output, "model.safetensors")))
                self.assertEqual(read_config(self.output)["vocab_size"], rows)
                for name, weight in weights[0].items():
                    for other in weights[1:]:
                        self.assertTrue(torch.equal(other[name], weight), name)
                    theirs = their_model.get_parameter(name).data
                    self.assertEqual(weight.shape, theirs.shape)
                    if name not in EMBEDDINGS:
                        self.assertTrue(torch.equal(weight, theirs), name)
                        continue
                    self.assertTrue(torch.equal(weight[:old_rows], theirs[:old_rows]))
                    mean = weight[:old_rows].double().mean(0).float()
                    torch.testing.assert_close(weight[old_rows:], mean.expand(rows - old_rows, -1), rtol=1e-6, atol=1e-9)
                    spread = weight[:old_rows].std(0) * 1e-9**0.5
                    self.assertLess(((theirs[old_rows:] - mean).abs() / spread).max(), 7)
                self.check_tokenizer(self.output, their_tokenizer)
                self.check_tokenizer(os.path.join(self.output, "checkpoint-1"), their_tokenizer)
                for line in steps[1::2]:
                    self.assertAlmostEqual(line["loss"], steps[0]["loss"], delta=1e-6 * steps[0]["loss"])
                    self.assertAlmostEqual(line["grad_norm"], steps[0]["grad_norm"], delta=1e-5 * steps[0]["grad_norm"])

                ours = load(self.output)
                batch = [their_tokenizer.apply_chat_template(CHATS[i])["input_ids"] for i in self.first_batch()]
                targets = sum(len(ids) - 1 for ids in batch)
                for whose, delta in ((ours, 2e-6), (their_model, 1e-4)):
                    whose.zero_grad()
                    loss = sum(torch.nn.functional.cross_entropy(
                        whose(input_ids=torch.tensor([ids])).logits[0, :-1], torch.tensor(ids[1:]), reduction="sum")
                        for ids in batch) / targets
                    loss.backward()
                    norm = sum(p.grad.double().square().sum() for p in whose.parameters()).sqrt().item()
                    self.assertAlmostEqual(loss.item(), steps[0]["loss"], delta=delta)
                    self.assertAlmostEqual(norm, steps[0]["grad_norm"], delta=5 * delta * norm)

    @staticmethod
    def first_batch():
        generator = torch.Generator().manual_seed(42)
        return torch.randperm(len(CHATS), generator=generator)[:4].tolist()

    def test_a_run_of_trl(self):
        """A model with more rows than tokens shrinks, as TRL has it: nothing is drawn, so the curves are the same."""
        source = self.make_source(5)
        model = self.path("model")
        shutil.copytree(UNTIED, model)
        wide = load(UNTIED)
        wide.resize_token_embeddings(700)
        wide.save_pretrained(model)
        trainer = SFTTrainer(model, args=SFTConfig(
            output_dir=self.path("theirs"), chat_template_path=source, max_steps=4, per_device_train_batch_size=4,
            learning_rate=2e-3, bf16=False, use_cpu=True, logging_steps=1, max_length=64, report_to="none",
            save_strategy="no", disable_tqdm=True), train_dataset=Dataset.from_list([{"messages": chat} for chat in CHATS]))
        trainer.train()
        theirs = [line for line in trainer.state.log_history if "loss" in line]
        self.train(model, "--chat_template_path", source, "--max_steps", "4", "--learning_rate", "2e-3", "--save_strategy", "no")
        ours = read_steps(self.output)
        self.assertEqual(read_config(self.output)["vocab_size"], trainer.model.config.vocab_size)
        self.assertLess(trainer.model.config.vocab_size, 700)
        self.assertEqual(len(ours), len(theirs))
        for our_line, their_line in zip(ours, theirs):
            self.assertAlmostEqual(our_line["loss"], their_line["loss"], delta=1e-4)
            self.assertAlmostEqual(our_line["grad_norm"], their_line["grad_norm"], delta=1e-3 * their_line["grad_norm"])
        self.check_tokenizer(self.output, trainer.processing_class)

    def test_a_run_goes_on_and_is_exported_with_its_tokens(self):
        source = self.make_source(30)
        flags = ["--chat_template_path", source, "--added_tokens", "<|mine|>", "--max_steps", "2", "--save_steps", "1",
                 "--learning_rate", "2e-3", "--eval_strategy", "steps", "--eval_steps", "1", "--eval_dataset_name", self.rows]
        self.train(TIED, *flags)
        whole = load_file(os.path.join(self.output, "model.safetensors"))
        checkpoint = self.path("checkpoint-1")
        shutil.copytree(os.path.join(self.output, "checkpoint-1"), checkpoint)
        again = self.path("again")
        self.expect(self.train(TIED, *flags, "--profile", "zero3", "--cp_size", "2", "--resume_from_checkpoint", checkpoint,
                               output=again, ranks=2), 0, "resuming from")
        for name, weight in load_file(os.path.join(again, "model.safetensors")).items():
            self.assertLess((weight - whole[name]).norm(), 1e-4 * whole[name].norm(), name)
        losses = [[line["eval_loss"] for line in read_metrics(folder) if "eval_loss" in line] for folder in (self.output, again)]
        self.assertAlmostEqual(losses[0][-1], losses[1][-1], delta=1e-5)
        other = [flag.replace("mine", "yours") for flag in flags]
        refused = run("train", "--model_name_or_path", TIED, "--dataset_name", self.rows, *STEP, *other, "--output_dir",
                      self.path("third"), "--resume_from_checkpoint", checkpoint)
        self.expect_one_message(refused, 78, 'added_tokens: ["<|mine|>"] then, ["<|yours|>"] now')
        exported = self.path("exported")
        self.expect(run("export", checkpoint, "--output_dir", exported, ranks=2), 0)
        tokenizer = AutoTokenizer.from_pretrained(exported)
        self.assertEqual(tokenizer.convert_tokens_to_ids("<|mine|>"), 500)
        self.assertEqual(len(tokenizer.get_vocab()), read_config(exported)["vocab_size"])
        self.assertEqual(load(exported).get_input_embeddings().weight.shape[0], 576)

    def test_tokens_of_the_user(self):
        """Unused rows are used first; the tokenizer gets these tokens alone."""
        for count, rows in ((12, 512), (13, 576)):
            with self.subTest(count):
                tokens = [f"<new {i}>" for i in range(count)]
                theirs = AutoTokenizer.from_pretrained(TIED)
                theirs.add_tokens(tokens)
                output = self.path(f"out{count}")
                self.train(TIED, "--added_tokens", json.dumps(tokens), "--max_steps", "1", "--save_strategy", "no", output=output)
                self.check_tokenizer(output, theirs)
                self.assertEqual(read_config(output)["vocab_size"], rows)
                self.assertEqual(load(output).get_input_embeddings().weight.shape[0], rows)
        asked = run("tokenize", "--model_name_or_path", TIED, "--added_tokens", "<a>,<b>", stdin='{"text": "x<b>"}\n')
        self.expect(asked, 0)
        self.assertEqual(json.loads(asked.stdout)["ids"][-1], 501)

    def test_a_checkpoint_as_a_model_gets_them_too(self):
        """As the model that is exported from it does; with fewer rows than before, too."""
        checkpoint, exported = self.path("before/checkpoint-1"), self.path("exported")
        model = self.path("model")
        shutil.copytree(TIED, model)
        wide = load(TIED)
        wide.resize_token_embeddings(700)
        wide.save_pretrained(model)
        self.train(model, "--max_steps", "1", "--save_steps", "1", output=self.path("before"))
        self.expect(run("export", checkpoint, "--output_dir", exported), 0)
        more, fewer = ["--added_tokens", json.dumps([f"<new {i}>" for i in range(210)])], ["--chat_template_path", self.make_source(5)]
        sharded = ["--profile", "zero3", "--per_device_train_batch_size", "1"]
        for name, tokens, rows, flags, ranks in (("more", more, 768, sharded, 3), ("fewer", fewer, 512, [], None)):
            with self.subTest(name):
                outputs = [self.path(f"{name}-{ranks}-{kind}") for kind in ("model", "checkpoint")]
                for begun_from, output in zip((exported, checkpoint), outputs):
                    result = self.train(begun_from, *tokens, *flags, "--max_steps", "1", "--full_determinism", output=output,
                                        ranks=ranks)
                    self.expect(result, 0, f"the vocabulary has {rows} rows in place of 700")
                weights = [load_file(os.path.join(output, "model.safetensors")) for output in outputs]
                self.assertEqual(len(weights[0][EMBEDDINGS[0]]), rows)
                for weight_name, weight in weights[0].items():
                    self.assertTrue(torch.equal(weight, weights[1][weight_name]), weight_name)
                self.assertEqual(*(read_config(output) for output in outputs))

    def test_the_plan_counts_the_rows(self):
        def checkpoint_bytes(*flags):
            result = run("plan", "--model_name_or_path", TIED, "--world", "2", "--gpu", HOST, "--profile", "zero3", "--json", *flags)
            self.expect(result, 0)
            return json.loads(result.stdout)["checkpoint_bytes"]

        width = read_config(TIED)["hidden_size"]
        more = checkpoint_bytes("--chat_template_path", self.make_source(30)) - checkpoint_bytes()
        self.assertEqual(more, 12 * 64 * width)


if __name__ == "__main__":
    unittest.main()

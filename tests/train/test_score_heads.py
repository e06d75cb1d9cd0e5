"""Scores of documents: reward models beside TRL, classes of texts beside transformers, in every layout, and what is refused."""

import json
import os
import random
import shutil
import unittest

from scored_rows import COMMON, FOLDER, MODEL, STEPS, ScoredRows, read_metrics, run
from test_preferences import BATCH, LAYOUTS, PAIRS, WORDS, as_flags, messages, random_pairs, without_prompt  # also sets variables
from trainer import ALL_CASES, read_json, some_of

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, DataCollatorWithPadding,
                          PreTrainedTokenizerFast, PrinterCallback, Trainer, TrainingArguments)
from trl import RewardConfig, RewardTrainer

DATA = os.path.join(FOLDER, "..", "parity", "data")
OTHER, END = "<|endoftext|>", "<|im_end|>"  # the tokenizer's pad token, and its EOS
NAMES = ["bad", "fair", "good"]
LABELS = len(NAMES)
LENGTH = 64  # of traces: some rows are longer
LONG = ["--max_length", "256"]  # no row is
SMALL = {"model_type": "llama", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.1,
         "bos_token_id": None, "eos_token_id": 495}
# Configurations of tests/parity/data. The long suite has further ones.
FAMILIES = ["models/llama3-tiny", "models/qwen2-tiny", "families/gemma2", "models/qwen3-tiny", "families/mixtral", "families/gpt2",
            "families/gpt_neox", "models/phi3-tiny", "families/gpt_oss", "families/stablelm"]
FURTHER_FAMILIES = ["families/" + name for name in (
    "arcee", "deepseek_v2", "deepseek_v3", "exaone4", "gemma", "gemma3", "glm", "glm4", "gpt_neox-serial", "helium", "hunyuan_v1_dense",
    "hunyuan_v1_moe", "minicpm3", "ministral", "ministral3", "nemotron", "olmo", "olmo3", "phi", "qwen2_moe", "qwen3_5", "qwen3_moe",
    "qwen3_next", "seed_oss", "smollm3", "stablelm-parallel", "starcoder2")] + ["models/mistral-swa-tiny", "models/olmo2-tiny"]
WITHOUT_SCORES = ["cohere", "granite", "olmoe"]  # architectures that have no such class in transformers
TRL_SETTINGS = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True, "seed": 42,
                "dataloader_pin_memory": False, "learning_rate": 0.002, "gradient_checkpointing": False, "bf16": False}


def random_texts(count, seed):
    """Rows of a text and a class; of some the end is a token that is no word, once or twice, or there is one within."""
    source = random.Random(seed)
    rows = []
    for number in range(count):
        words = [" " + source.choice(WORDS) for _ in range(source.randint(1, 12 if number % 4 else 30))]
        if number % 6 == 1:
            words.insert(len(words) // 2, OTHER)
        end = {0: OTHER, 2: 2 * OTHER, 3: END, 4: END + OTHER}.get(number % 7, "")
        rows.append({"text": "".join(words)[1:] + end, "label": source.randrange(LABELS)})
    return rows


def as_conversation(row):
    turns = [{"role": "user", "content": row["text"]}]
    if len(row["text"]) % 2:
        turns.append({"role": "assistant", "content": "why not"})
    return {"messages": turns, "label": row["label"]}


class Classifier(Trainer):
    """transformers' own, which logs the accuracy too."""

    # The model's loss is the mean of a micro-batch whatever the number of items of the step is; so a step's is the mean of these.
    loss_is_scaled_for_ga = False
    right = ()

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        self.right = [*self.right, *(outputs.logits.argmax(-1) == inputs["labels"]).tolist()]
        return (loss, outputs) if return_outputs else loss

    def log(self, logs, *more):
        for prefix in ("", "eval_"):
            if prefix + "loss" in logs:
                logs[prefix + "accuracy"] = sum(self.right) / len(self.right)
                self.right = ()
        super().log(logs, *more)


class Heads(ScoredRows):
    """A trainer of scores, its models, and what transformers makes of them. A subclass has the command, the data and KEYS."""

    KEYS = ("loss", "grad_norm")  # numbers of a step that no layout changes
    SHARES = ("accuracy",)  # the same, of which some are 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare()

    @classmethod
    def save_model(cls, name, labels=None, pad=OTHER, noise=0.0, **fields):
        """A folder with random weights: of scores if there is a number of labels, of the next token if there is none."""
        torch.manual_seed(7)
        config = AutoConfig.for_model(**(fields if "model_type" in fields else {**SMALL, **fields}))
        if labels:
            config.num_labels = labels
        model = (AutoModelForSequenceClassification if labels else AutoModelForCausalLM).from_config(config)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(noise * torch.randn_like(weight))
        model.float().save_pretrained(cls.path(name))
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(os.path.join(MODEL, file), cls.path(name))
        with open(os.path.join(MODEL, "tokenizer_config.json")) as file:
            settings = json.load(file)
        with open(cls.path(name, "tokenizer_config.json"), "w") as file:
            json.dump({key: value for key, value in {**settings, "pad_token": pad}.items() if value is not None}, file)
        return cls.path(name)

    @classmethod
    def save_adapter(cls, name, **settings):
        """An adapter of the model that has learned something, with a head of its own."""
        adapted = get_peft_model(AutoModelForSequenceClassification.from_pretrained(cls.model, dtype=torch.float32),
                                 LoraConfig(task_type="SEQ_CLS", modules_to_save=["score"], r=4, lora_alpha=8,
                                            target_modules=["q_proj", "v_proj"], **settings))
        torch.manual_seed(3)
        with torch.no_grad():
            for weight in adapted.parameters():
                if weight.requires_grad:
                    weight.add_(0.05 * torch.randn_like(weight))
        adapted.save_pretrained(cls.path(name))
        return cls.path(name)

    @staticmethod
    def tokenizer(folder):
        """With the pad token that rows are made with: EOS where there is none."""
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        return tokenizer

    def train(self, name, *flags, ranks=None, model=None, data=None, command=None, **variables):
        return run(command or self.command, "--model_name_or_path", model or self.model, "--dataset_name", data or self.file, *COMMON,
                   "--per_device_train_batch_size", str(PAIRS), "--data_cache_dir", self.path("cache"), "--output_dir", self.path(name),
                   *flags, ranks=ranks, **variables)

    def load(self, folder):
        """The model of a folder, which has every weight and no other."""
        model, info = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                                         output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(info[kind], kind)
        return model

    def scores(self, model, documents):
        """Of each document, alone: documents x labels."""
        with torch.no_grad():
            return torch.cat([model(torch.tensor([ids])).logits.double() for ids in documents])

    def live(self, trainer_type, model, rows, evaluated=None, adapter=None, **settings):
        """The steps that a trainer of TRL or transformers logs; the evaluations before and after them if there is data for these."""
        model = PeftModel.from_pretrained(model, adapter, is_trainable=True) if adapter else model
        trainer = trainer_type(model=model, train_dataset=rows, eval_dataset=evaluated, **settings)
        trainer.remove_callback(PrinterCallback)
        if evaluated is None:
            trainer.train()
            return [line for line in trainer.state.log_history if "loss" in line]
        numbers = [trainer.evaluate()]
        trainer.train()
        return [*numbers, trainer.evaluate()]

    def expect_reference(self, ours, theirs, keys=(), exact=()):
        """The steps of a reference, or its evaluations."""
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            at, step = ("eval_" if "eval_loss" in b else ""), a["step"]
            loss, accuracy = at + "loss", at + "accuracy"
            self.assertAlmostEqual(a[loss], b[loss], delta=1e-4 * max(1, abs(b[loss])), msg=step)
            self.assertAlmostEqual(a[accuracy], b[accuracy], delta=1e-6, msg=step)
            for key in keys:
                self.assertAlmostEqual(a[at + key], b[at + key], delta=1e-3, msg=(step, key))
            self.assertNotIn(at + "mean_token_accuracy", a)
            self.assertEqual(at + "entropy" in a, not keys)  # of labels; rewards have none
            if not at:
                self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * b["grad_norm"], msg=step)
                self.assertAlmostEqual(a["learning_rate"], b["learning_rate"], delta=1e-12)
                for key in exact:
                    self.assertEqual(a[key], b[key], (step, key))

    def expect_steps(self, ours, theirs):
        self.assertEqual(len(ours), STEPS)
        for a, b in zip(ours, theirs, strict=True):
            for key in self.KEYS:
                self.assertLessEqual(abs(a[key] - b[key]), 1e-5 * max(1, abs(b[key])), (a["step"], key))
            for key in self.SHARES:
                self.assertAlmostEqual(a[key], b[key], delta=1e-6, msg=(a["step"], key))

    def evaluations(self, name):
        return [line for line in read_metrics(self.path(name)) if "eval_loss" in line]

    def losses_by_row(self, name, rows, *flags, ranks=None):
        """The first step and, for each line of the file, the targets and the loss of its documents."""
        file = self.write("turned.jsonl", rows)  # one name, so that a place names the same row
        step, = self.steps(name, "--document_log", "all", "--max_steps", "1", *flags, ranks=ranks, data=file)
        shown = run("inspect", self.path(name), "--step", "1", "--json")
        self.expect(shown, 0)
        losses = {f"{file}:{line}": [] for line in range(1, len(rows) + 1)}
        for document in map(json.loads, shown.stdout.splitlines()):
            losses[document["rows_of_dataset"][0]].append((document["targets"], document["loss"]))
        self.assertTrue(all(losses.values()), losses)
        return step, {place: sorted(found) for place, found in losses.items()}

    def expect_others_as_they_were(self, losses, turned, victim):
        for place in losses:
            (self.assertNotEqual if place.endswith(f":{victim + 1}") else self.assertEqual)(turned[place], losses[place], place)


class Rewards(Heads):
    command = "reward"
    KEYS = ("loss", "grad_norm", "mean_reward", "margin")

    @classmethod
    def prepare(cls):
        cls.rows = [without_prompt(row) for row in random_pairs(PAIRS, 3)]
        cls.file = cls.write("pairs.jsonl", cls.rows)
        cls.model = cls.save_model("rewards", 1)

    def documents(self, rows, tokenizer):
        """The tokens of both sides of each row: all chosen ones, then all rejected ones."""
        found = []
        for side in ("chosen", "rejected"):
            for row in rows:
                whole = row.get("prompt", row[side][:0]) + row[side]
                if isinstance(whole, str):
                    end = "" if whole.endswith(tokenizer.eos_token) else tokenizer.eos_token
                    found.append(tokenizer(whole + end)["input_ids"])
                else:
                    found.append(tokenizer.apply_chat_template(whole, return_dict=True)["input_ids"])
        return found

    def expected(self, model, rows, tokenizer):
        """What an evaluation reports: each number is a mean over pairs."""
        chosen, rejected = self.scores(model, self.documents(rows, tokenizer)).view(2, -1)
        margins = chosen - rejected
        self.assertGreater(margins.abs().min().item(), 1e-5)  # none is a tie
        wanted = torch.tensor([row.get("margin", 0) for row in rows])
        return {"loss": -torch.nn.functional.logsigmoid(margins - wanted).mean().item(), "accuracy": (margins > 0).double().mean().item(),
                "margin": margins.mean().item(), "mean_reward": torch.cat([chosen, rejected]).mean().item()}

    def expect_evaluation(self, line, expected):
        for key, value in expected.items():
            self.assertAlmostEqual(line["eval_" + key], value, delta=2e-5 + 2e-6 * abs(value), msg=key)

    def trl(self, folder, rows, evaluated=None, adapter=None, **settings):
        """What RewardTrainer logs."""
        return self.live(RewardTrainer, AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32),
                         Dataset.from_list(rows), evaluated and Dataset.from_list(evaluated), adapter,
                         processing_class=self.tokenizer(folder),
                         args=RewardConfig(output_dir=self.path("trl"), **{**TRL_SETTINGS, "max_length": LENGTH, **settings}))

    def expect_trl(self, ours, theirs):
        self.expect_reference(ours, theirs, keys=("mean_reward", "margin"), exact=("num_tokens",))


class Classes(Heads):
    command = "classify"

    @classmethod
    def prepare(cls):
        cls.rows = random_texts(PAIRS, 4)
        cls.file = cls.write("texts.jsonl", cls.rows)
        cls.model = cls.save_model("classes", LABELS)

    def documents(self, rows, tokenizer, max_length):
        return [tokenizer(row["text"], truncation=True, max_length=max_length)["input_ids"] if "text" in row else
                tokenizer.apply_chat_template(row["messages"], return_dict=True)["input_ids"][:max_length] for row in rows]

    def expected(self, model, rows, tokenizer, max_length=48):
        scores = self.scores(model, self.documents(rows, tokenizer, max_length))
        labels = torch.tensor([row["label"] for row in rows])
        return {"loss": torch.nn.functional.cross_entropy(scores, labels).item(),
                "accuracy": (scores.argmax(-1) == labels).double().mean().item()}

    def expect_evaluation(self, line, expected):
        self.assertAlmostEqual(line["eval_loss"], expected["loss"], delta=2e-5)
        self.assertAlmostEqual(line["eval_accuracy"], expected["accuracy"], delta=1e-6)

    def expect_evaluations(self, rows, metric):
        """Of these rows, before and after a run."""
        flags = ["--eval_on_start", "--eval_dataset_name", self.write("other.jsonl", rows), "--eval_strategy", "steps", "--eval_steps",
                 str(STEPS), "--per_device_eval_batch_size", "4", "--metric_for_best_model", metric]
        ranks, layout = LAYOUTS[0]
        self.steps("evaluated", *flags, *layout, ranks=ranks)
        for line, folder in zip(self.evaluations("evaluated"), (self.model, self.path("evaluated")), strict=True):
            model, tokenizer = self.load(folder), self.tokenizer(self.model)
            model.config.pad_token_id = tokenizer.pad_token_id
            self.expect_evaluation(line, self.expected(model, rows, tokenizer))

    def transformers(self, folder, rows, evaluated=None, adapter=None, max_length=LENGTH, **settings):
        """What transformers' Trainer logs."""
        model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
        tokenizer = self.tokenizer(folder)
        model.config.pad_token_id = tokenizer.pad_token_id

        def encoded(rows):
            return Dataset.from_list([{"input_ids": ids, "labels": row["label"]}
                                      for ids, row in zip(self.documents(rows, tokenizer, max_length), rows)])

        return self.live(Classifier, model, encoded(rows), evaluated and encoded(evaluated), adapter,
                         data_collator=DataCollatorWithPadding(tokenizer),
                         args=TrainingArguments(output_dir=self.path("transformers"), **{**TRL_SETTINGS, **settings}))


class RewardTraces(Rewards):
    def check(self, name, rows, model, **settings):
        settings = {"per_device_train_batch_size": BATCH, "max_steps": 20, **settings}
        ours = self.steps(name, "--max_length", str(LENGTH), *as_flags(settings), model=model, data=self.write(name + ".jsonl", rows))
        self.expect_trl(ours, self.trl(model, rows, **settings))

    def test_traces_are_those_of_trl(self):
        without = self.save_model("without-pad", 1, pad=None)
        pads_with_end = self.save_model("pads-with-end", 1, pad=END)
        # An EOS is not doubled, and a document of nothing but pad tokens is scored at its first one.
        ends = [{"chosen": self.rows[0]["rejected"] + END, "rejected": "why"}, {"chosen": END, "rejected": "a bright day" + OTHER},
                *self.rows]
        explicit = random_pairs(PAIRS, 5)
        conversations = [messages(row) for row in explicit]
        for name, rows, model, settings in (
                ("texts", ends, self.model, {}), ("texts-without-pad", ends, without, {}),
                ("conversations", conversations, self.model, {"max_length": 128}),
                ("conversations-pads-with-end", conversations, pads_with_end, {"max_length": 128, "max_steps": 5}),
                ("centred", explicit, pads_with_end, {"center_rewards_coefficient": 0.05}),
                ("margins", [{**row, "margin": (i % 5 - 2) / 2} for i, row in enumerate(explicit)], self.model, {"max_length": 128}),
                ("accumulated", explicit, self.model, {"max_length": 256, "gradient_accumulation_steps": 3, "max_steps": 4})):
            with self.subTest(rows=name):
                self.check(name, rows, model, **settings)

    def test_rows_are_dropped_by_max_length(self):
        """A pair of which one side is longer is left out."""
        lengths = [len(ids) for ids in self.documents(self.rows, self.tokenizer(self.model))]
        kept = sum(max(pair) <= LENGTH for pair in zip(lengths[:PAIRS], lengths[PAIRS:]))
        self.assertTrue(PAIRS / 2 < kept < PAIRS, kept)
        step, = self.steps("dropped", "--max_length", str(LENGTH), "--max_steps", "1")
        self.assertEqual(step["num_tokens"], sum(sum(pair) for pair in zip(lengths[:PAIRS], lengths[PAIRS:]) if max(pair) <= LENGTH))

    def test_evaluation(self):
        settings = {"per_device_train_batch_size": BATCH, "max_steps": STEPS}
        flags = ["--eval_on_start", "--eval_strategy", "steps", "--eval_steps", str(STEPS), "--per_device_eval_batch_size", "4"]
        # Batches of TRL have equal weights, so there all have as many pairs.
        other = [without_prompt(row) for row in random_pairs(17, 8)]
        lengths = [len(ids) for ids in self.documents(other, self.tokenizer(self.model))]
        short = [row for row, *pair in zip(other, lengths[:17], lengths[17:]) if max(pair) <= LENGTH][:8]
        self.assertEqual(len(short), 8)
        self.steps("evaluated-as-trl", *flags, *as_flags(settings), "--max_length", str(LENGTH), "--eval_dataset_name",
                   self.write("short.jsonl", short))
        theirs = self.trl(self.model, self.rows, short, per_device_eval_batch_size=4, **settings)
        self.expect_trl(self.evaluations("evaluated-as-trl"), theirs)
        file = self.write("other.jsonl", other)
        for number, (ranks, layout) in enumerate(some_of([(None, []), LAYOUTS[0], LAYOUTS[1]])):
            with self.subTest(layout=layout):
                name = f"evaluated-{number}"
                self.steps(name, *flags, *LONG, "--eval_dataset_name", file, *layout, ranks=ranks)
                first, last = self.evaluations(name)
                for line, folder in ((first, self.model), (last, self.path(name))):
                    model, tokenizer = self.load(folder), self.tokenizer(folder)
                    model.config.pad_token_id = tokenizer.pad_token_id
                    self.expect_evaluation(line, self.expected(model, other, tokenizer))


class ClassTraces(Classes):
    def check(self, name, rows, model, *flags, named=None, **settings):
        settings = {"per_device_train_batch_size": BATCH, "max_steps": 20, "max_length": LENGTH, **settings}
        ours = self.steps(name, *as_flags(settings), *flags, model=model, data=self.write(name + ".jsonl", named or rows))
        self.expect_reference(ours, self.transformers(model, rows, **settings))

    def test_traces_are_those_of_transformers(self):
        without = self.save_model("without-pad", LABELS, pad=None)
        names = [{**row, "label": NAMES[row["label"]]} for row in self.rows]
        conversations = [as_conversation(row) for row in self.rows]
        for name, rows, model, flags, settings in (
                ("texts", self.rows, self.model, [], {}), ("texts-without-pad", self.rows, without, [], {}),
                ("accumulated", self.rows, self.model, [], {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 3}),
                ("truncated", self.rows, without, [], {"max_length": 9}),
                ("conversations", conversations, without, [], {"max_length": 64, "max_steps": 5})):
            with self.subTest(rows=name):
                self.check(name, rows, model, *flags, **settings)
        with self.subTest(rows="names"):
            self.check("names", self.rows, self.model, "--class_names", *NAMES, named=names)
            config = self.load(self.path("names")).config
            self.assertEqual((config.id2label, config.label2id),
                             (dict(enumerate(NAMES)), {name: number for number, name in enumerate(NAMES)}))

    def test_evaluation(self):
        other = random_texts(11, 8)
        file = self.write("other.jsonl", other)
        settings = {"max_length": 48, "max_steps": STEPS}
        flags = ["--eval_on_start", "--eval_dataset_name", file, "--eval_strategy", "steps", "--eval_steps", str(STEPS),
                 "--per_device_eval_batch_size", "4"]
        theirs = self.transformers(self.model, self.rows, other, per_device_train_batch_size=PAIRS, per_device_eval_batch_size=4,
                                   **settings)
        for number, (ranks, layout) in enumerate(some_of([(None, []), LAYOUTS[0], LAYOUTS[1]])):
            with self.subTest(layout=layout):
                name = f"evaluated-{number}"
                self.steps(name, *flags, *layout, ranks=ranks)
                self.expect_reference(self.evaluations(name), theirs)
                folder = self.path(name)
                self.expect_evaluation(self.evaluations(name)[-1], self.expected(self.load(folder), other, self.tokenizer(folder)))


class EveryLayout:
    """Of Rewards and of Classes: a step has all rows."""

    def test_every_layout(self):
        alone = self.steps("alone", *self.MORE)
        self.assertLess(alone[-1]["loss"], alone[0]["loss"])
        for number, (ranks, layout) in enumerate(LAYOUTS):
            with self.subTest(layout=layout):
                self.expect_steps(self.steps(f"layout-{number}", *self.MORE, *layout, ranks=ranks), alone)

    def test_a_killed_run_goes_on_in_another_layout(self):
        self.expect_to_go_on(LAYOUTS[3], LAYOUTS[0], *self.MORE)
        ours, theirs = (load_file(self.path(name, "model.safetensors")) for name in ("killed", "not-killed"))
        self.assertEqual(set(ours), set(theirs))
        self.assertLess((ours["score.weight"] - theirs["score.weight"]).abs().max().item(), 1e-4)

    def test_a_new_head(self):
        """It is drawn from the seed, the same in every layout."""
        model = self.save_model("of-tokens")
        alone = self.steps("head-alone", *self.MORE, *self.NEW, model=model)
        self.expect_steps(self.steps("head-cut", *self.MORE, *self.NEW, "--profile", "zero3", "--per_device_train_batch_size",
                                     str(PAIRS // 2), ranks=2, model=model), alone)
        heads = []
        for name, flags in (("drawn", []), ("drawn-once-more", ["--seed", "43"])):
            step, = self.steps(name, *self.MORE, *self.NEW, "--max_steps", "1", "--learning_rate", "1e-9", *flags, model=model)
            heads.append(load_file(self.path(name, "model.safetensors"))["score.weight"])
            if not flags:
                self.assertAlmostEqual(step["loss"], alone[0]["loss"], delta=1e-6)
        ours, others = heads
        self.assertEqual(tuple(ours.shape), (self.labels, SMALL["hidden_size"]))
        self.assertGreater((ours - others).abs().max().item(), 0.1 * SMALL["initializer_range"])
        numbers = torch.cat(heads).flatten() / SMALL["initializer_range"]
        self.assertLess(abs(numbers.mean().item()), 5 / len(numbers) ** 0.5)
        self.assertLess(abs(numbers.std().item() - 1), 5 / (2 * len(numbers)) ** 0.5)

    def test_what_is_exported(self):
        """transformers loads it, with the numbers that were reported, and a run begins from it."""
        model = self.save_model("exported-from", tie_word_embeddings=False)
        file = self.write("seen.jsonl", self.rows[:10])
        evaluated = ["--eval_on_start", "--eval_dataset_name", file, "--eval_strategy", "steps", "--eval_steps", str(STEPS)]
        self.steps("exported", *self.MORE, *self.NEW, *evaluated, "--profile", "zero3", "--per_device_train_batch_size", str(PAIRS // 2),
                   ranks=2, model=model)
        folder = self.path("exported")
        weights = load_file(os.path.join(folder, "model.safetensors"))
        self.assertIn("score.weight", weights)
        self.assertFalse([name for name in weights if "lm_head" in name])
        exported, tokenizer = self.load(folder), self.tokenizer(folder)
        self.assertEqual(type(exported).__name__, "LlamaForSequenceClassification")
        with open(os.path.join(folder, "config.json")) as opened:
            written = json.load(opened)
        self.assertEqual(written["architectures"], ["LlamaForSequenceClassification"])
        self.assertEqual(written["pad_token_id"], tokenizer.pad_token_id)
        names = [f"LABEL_{number}" for number in range(self.labels)]
        self.assertEqual((exported.config.id2label, exported.config.label2id),
                         (dict(enumerate(names)), {name: number for number, name in enumerate(names)}))
        expected = self.expected(exported, self.rows[:10], tokenizer)
        self.expect_evaluation(self.evaluations("exported")[-1], expected)
        self.expect(run("export", folder, "--output_dir", self.path("again")), 0)  # of the newest checkpoint
        again = load_file(self.path("again", "model.safetensors"))
        self.assertEqual(sorted(again), sorted(weights))
        self.assertTrue(all(torch.equal(again[name], weights[name]) for name in weights))
        self.steps("from-exported", *self.MORE, *evaluated, model=folder)
        self.expect_evaluation(self.evaluations("from-exported")[0], expected)


class RewardLayouts(EveryLayout, Rewards):
    MORE, NEW, labels = LONG, [], 1

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.rows = [{**row, "margin": row_number / 8 - 1} if row_number % 3 else row for row_number, row in enumerate(cls.rows)]
        cls.file = cls.write("pairs.jsonl", cls.rows)

    def with_another_word(self, row, side):
        """The row with a text of this side that has another word, and as many tokens."""
        tokenizer = self.tokenizer(self.model)
        for word in WORDS:
            turned = {**row, side: " ".join([*row[side].split()[:-1], word])}
            if turned != row and [len(ids) for ids in self.documents([turned], tokenizer)] == [
                    len(ids) for ids in self.documents([row], tokenizer)]:
                return turned
        raise AssertionError("no other word")

    def test_pairs_do_not_leak(self):
        """Another word in one answer: the losses of other pairs keep every bit, and the rewards of the other side their mean."""
        victim = 9
        before = self.rows[victim]
        ranks, layout = LAYOUTS[3]
        found = [self.losses_by_row(f"documents-{number}", [*self.rows[:victim], row, *self.rows[victim + 1:]], *LONG, *layout, ranks=ranks)
                 for number, row in enumerate([before, *(self.with_another_word(before, side) for side in ("rejected", "chosen"))])]
        step, losses = found[0]
        for (turned_step, turned), sign in zip(found[1:], (0.5, -0.5)):
            self.expect_others_as_they_were(losses, turned, victim)
            kept, moved = ([line["mean_reward"] + factor * line["margin"] for line in (step, turned_step)] for factor in (sign, -sign))
            self.assertAlmostEqual(*kept, delta=2e-6)
            self.assertGreater(abs(moved[0] - moved[1]), 1e-5)


class ClassLayouts(EveryLayout, Classes):
    MORE, NEW, labels = [], ["--num_labels", str(LABELS)], LABELS

    def test_packed_documents(self):
        """Each keeps its label: a step with all rows is the same step."""
        alone = self.steps("not-packed")
        for number, (ranks, layout) in enumerate([(None, []), (2, LAYOUTS[1][1]), (4, LAYOUTS[3][1])]):
            with self.subTest(layout=layout):
                self.expect_steps(self.steps(f"packed-{number}", "--packing", "true", *layout, ranks=ranks), alone)

    def test_packed_documents_do_not_leak(self):
        victim = 5
        tokenizer = self.tokenizer(self.model)
        before = self.rows[victim]
        words = before["text"].split(" ")
        self.assertGreater(len(words), 2)
        length = len(tokenizer(before["text"])["input_ids"])
        turned = next(row for row in ({**before, "text": " ".join([words[0], word, *words[2:]])} for word in WORDS)
                      if row != before and len(tokenizer(row["text"])["input_ids"]) == length)
        ranks, layout = LAYOUTS[3]
        (step, losses), (turned_step, turned_losses) = (
            self.losses_by_row(f"documents-{number}", [*self.rows[:victim], row, *self.rows[victim + 1:]], "--packing", "true", *layout,
                               ranks=ranks) for number, row in enumerate([before, turned]))
        self.expect_others_as_they_were(losses, turned_losses, victim)
        self.assertNotEqual(step["loss"], turned_step["loss"])
        self.assertAlmostEqual(sum(loss for found in losses.values() for _, loss in found) / PAIRS, step["loss"], delta=1e-5)


class RewardAdapters(Rewards):
    def with_adapter(self, base, folder):
        model = AutoModelForSequenceClassification.from_pretrained(base, dtype=torch.float32, num_labels=1, attn_implementation="eager")
        model.config.pad_token_id = self.tokenizer(base).pad_token_id
        return PeftModel.from_pretrained(model, folder)

    def test_a_trace_is_that_of_trl(self):
        """Which has no dropout, whatever the adapter's settings."""
        settings = {"per_device_train_batch_size": BATCH, "max_steps": 5, "learning_rate": 0.01}
        start = self.save_adapter("start", lora_dropout=0.3)
        ours = self.steps("from-start", *as_flags(settings), "--max_length", str(LENGTH), "--adapter_name_or_path", start)
        self.expect_trl(ours, self.trl(self.model, self.rows, adapter=start, **settings))

    def test_an_adapter_with_a_new_head(self):
        """In two layouts; PEFT loads it, with the rewards that were reported."""
        model = self.save_model("of-tokens")
        flags = ["--use_peft", "true", "--lora_r", "4", "--lora_alpha", "8", "--lora_target_modules", "q_proj,v_proj",
                 "--learning_rate", "0.01", "--eval_dataset_name", self.file, "--eval_strategy", "steps", "--eval_steps", str(STEPS), *LONG]
        alone = self.steps("lora", *flags, model=model)
        self.assertLess(alone[-1]["loss"], alone[0]["loss"])
        self.expect_steps(self.steps("lora-cut", *flags, *LAYOUTS[3][1], ranks=4, model=model), alone)
        for name in ("lora", "lora-cut"):
            with open(self.path(name, "adapter_config.json")) as file:
                config = json.load(file)
            self.assertEqual(config["task_type"], "SEQ_CLS")
            self.assertIn("score", config["modules_to_save"])
            weights = load_file(self.path(name, "adapter_model.safetensors"))
            self.assertEqual(tuple(weights["base_model.model.score.weight"].shape), (1, SMALL["hidden_size"]))
            self.assertEqual(len(weights), 1 + 2 * 2 * SMALL["num_hidden_layers"], sorted(weights))
            line, = self.evaluations(name)
            expected = self.expected(self.with_adapter(model, self.path(name)), self.rows, self.tokenizer(model))
            self.expect_evaluation(line, expected)
        self.expect(run("export", self.path("lora"), "--merge", "true", "--output_dir", self.path("merged")), 0)
        self.expect_evaluation(line, self.expected(self.load(self.path("merged")), self.rows, self.tokenizer(model)))


class ClassAdapters(Classes):
    def test_a_trace_is_that_of_transformers(self):
        settings = {"per_device_train_batch_size": BATCH, "max_steps": 5, "learning_rate": 0.01, "max_length": LENGTH}
        start = self.save_adapter("start", lora_dropout=0.0)
        ours = self.steps("from-start", *as_flags(settings), "--adapter_name_or_path", start, "--lora_dropout", "0")
        self.expect_reference(ours, self.transformers(self.model, self.rows, adapter=start, **settings))


class Families(Classes):
    def test_families(self):
        """The first step of a batch beside transformers' model."""
        for name in [*some_of(FAMILIES), *(FURTHER_FAMILIES if ALL_CASES else [])]:
            with self.subTest(family=name):
                path = os.path.join(DATA, name)
                golden = read_json(path, "config.json") if os.path.isdir(path) else read_json(path + ".json.gz")
                config = {**golden.get("config", golden), "vocab_size": 512}
                folder = self.save_model(os.path.basename(name), LABELS, noise=0.05, **config)
                step, = self.steps("of-" + os.path.basename(name), "--max_steps", "1", model=folder)
                model, tokenizer = self.load(folder).eval(), self.tokenizer(folder)
                model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
                expected = self.expected(model, self.rows, tokenizer)
                self.assertAlmostEqual(step["loss"], expected["loss"], delta=1e-5 * max(1, expected["loss"]))
                self.assertAlmostEqual(step["accuracy"], expected["accuracy"], delta=1e-6)
                self.load(self.path("of-" + os.path.basename(name)))


class BadInput(Classes):
    @classmethod
    def prepare(cls):
        super().prepare()
        cls.of_tokens = cls.save_model("of-tokens")
        cls.rewards = cls.save_model("rewards", 1)
        cls.pairs = cls.write("pairs.jsonl", random_pairs(4, 2))

    def refuse(self, codes, says, *flags, rows=None, data=None, **options):
        """With one of these exit codes, and words of which case does not count."""
        data = self.write("bad.jsonl", rows) if rows else data
        result = self.train("refused", "--per_device_train_batch_size", "1", "--max_steps", "1", *flags, data=data, **options)
        self.assertIn(result.returncode, codes, result.stderr + result.stdout)
        for words in says:
            self.assertIn(words.lower(), result.stderr.lower())

    def test_labels(self):
        row = self.rows[0]
        place = self.path("bad.jsonl") + ":2"
        for label in (LABELS, -1, 1.5, "good", None):
            with self.subTest(label=label):
                self.refuse([65], ["label", place], rows=[row, {**row, "label": label}, row])
        self.refuse([65], ["label", place], rows=[row, {"text": row["text"]}, row])
        turn = [{"role": "user", "content": row["text"]}]
        self.refuse([65], ["add_generation_prompt", place],
                    rows=[{"messages": turn, "label": 0, "add_generation_prompt": adds} for adds in (True, 1, False)])
        self.refuse([65], ["label", place, "best"], "--class_names", *NAMES,
                    rows=[{**row, "label": label} for label in ("good", "best", "bad")])

    def test_settings(self):
        self.refuse([78], ["num_labels"], model=self.of_tokens)
        self.refuse([78], ["packing"], "--packing", "true", command="reward", model=self.rewards, data=self.pairs)
        for words, flags in ((["num_labels", "class_names"], ["--num_labels", "2", "--class_names", *NAMES]),
                             (["class_names"], ["--class_names", "good", "good", "bad"]),
                             (["class_names", "a list of words"], ["--class_names", '{"0": "good", "1": "bad"}']),
                             (["num_labels", "1048576"], ["--num_labels", "4000000000"]),
                             (["center_rewards_coefficient"], ["--center_rewards_coefficient", "0.1"]),
                             (["packing_strategy"], ["--packing", "true", "--packing_strategy", "wrapped"])):
            self.refuse([78], words, *flags)
        self.refuse([78], ["score writes log-probabilities of tokens"], "--method", "classification", command="score")

    def test_models(self):
        texts = self.write("only-texts.jsonl", [{"text": row["text"]} for row in self.rows])
        self.refuse([65, 78], ["LlamaForSequenceClassification"], command="sft", data=texts)
        self.refuse([78], ["has one label, whose score is a number"], model=self.rewards)
        self.expect(run("verify", self.rewards), 65, "the model has a head of scores")
        named = self.path("named")
        self.expect(self.train("named", "--class_names", "good", "bad", "best", "--per_device_train_batch_size", "1", "--max_steps", "1"), 0)
        self.refuse([78], ["class_names = bad, good, best", "in another order, good, bad, best"], "--class_names", "bad", "good", "best",
                    model=named)
        self.expect(self.train("renamed", "--class_names", "fine", "bad", "best", "--per_device_train_batch_size", "1", "--max_steps", "1",
                               model=named), 0)
        # transformers writes no names of two labels.
        two = self.write("two.jsonl", [{**row, "label": row["label"] % 2} for row in self.rows])
        self.refuse([0], [], model=self.save_model("two", 2), data=two)
        for name in some_of(WITHOUT_SCORES):
            config = read_json(DATA, "families", name + ".json.gz")["config"]
            model = self.save_model(name, **{**config, "vocab_size": 512})
            for command, data, flags in (("classify", self.file, ["--num_labels", str(LABELS)]), ("reward", self.pairs, [])):
                with self.subTest(model=name, command=command):
                    self.refuse([65, 78], [name], *flags, command=command, model=model, data=data)

    def test_rows_of_pairs(self):
        rows = random_pairs(3, 2)
        self.refuse([65], ["max_length"], "--max_length", "4", command="reward", model=self.rewards, rows=rows)
        for margin in ("1", None, [1.0], 1e60):
            with self.subTest(margin=margin):
                self.refuse([65], ["margin", self.path("bad.jsonl") + ":2"], command="reward", model=self.rewards,
                            rows=[{**rows[0], "margin": 1}, {**rows[1], "margin": margin}, rows[2]])
        for side in ("chosen", "rejected"):
            with self.subTest(without=side):
                self.refuse([65], [side], command="reward", model=self.rewards,
                            rows=[{key: value for key, value in row.items() if key != side} for row in rows])


if __name__ == "__main__":
    unittest.main()

"""Learning from pairs of answers: the numbers of TRL's DPOTrainer, in every layout, and what is refused."""

import glob
import gzip
import json
import math
import os
import random
import shutil
import unittest
import warnings

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
from scored_rows import COMMON, FOLDER, MODEL, STEPS, ScoredRows, read_metrics, run  # noqa: E402
from trainer import some_of  # noqa: E402

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from peft import PeftModel  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback  # noqa: E402
from transformers.utils import logging  # noqa: E402
from trl import DPOConfig, DPOTrainer  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable_progress_bar()
torch.set_num_threads(1)
PAIRS, LENGTH, BATCH = 24, 48, 4
FAMILIES = os.path.join(FOLDER, "..", "parity", "data", "families")
START = os.path.join(FOLDER, "..", "parity", "data", "adapters", "start", "qwen2_qv")
WORDS = ("the harbour keeps its lamps until morning and every ferry slowly meets another one often carefully almost together why do birds "
         "cost nothing on a bright day if it never rains again we say that old bridges quickly carry more trains than new roads").split()
REWARDS = ("rewards/chosen", "rewards/rejected", "rewards/margins")
LOG_PROBABILITIES = ("logps/chosen", "logps/rejected")
GENTLE = {"learning_rate": 0.0005}  # where powers of e multiply roundings
# Settings in TRL's names.
LONG_TRACES = [{}, {"rpo_alpha": 0.5}, {"loss_type": "hinge", "beta": 0.02}, {"loss_type": "ipo"},
               {"loss_type": "robust", "label_smoothing": 0.1}]
SHORT_TRACES = [{"loss_type": "exo_pair", "label_smoothing": 0.01}, {"loss_type": "nca_pair"}, {"loss_type": "bco_pair", "beta": 0.3},
                {"loss_type": "sppo_hard"}, {"loss_type": "apo_zero"}, {"loss_type": "apo_down"},
                {"loss_type": "discopop", "discopop_tau": 0.2}, {"loss_type": "sigmoid_norm", "beta": 1.0},
                {"f_divergence_type": "forward_kl", **GENTLE}, {"f_divergence_type": "js_divergence"},
                {"f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": 0.7},
                {"loss_type": "hinge", "f_divergence_type": "js_divergence"},
                {"loss_type": "ipo", "f_divergence_type": "alpha_divergence", **GENTLE},
                {"loss_type": "exo_pair", "label_smoothing": 0.1, "f_divergence_type": "forward_kl", **GENTLE},
                {"loss_type": "robust", "label_smoothing": 0.2, "f_divergence_type": "js_divergence"},
                {"loss_type": "discopop", "f_divergence_type": "alpha_divergence"},
                {"loss_type": "sigmoid_norm", "beta": 1.0, "f_divergence_type": "forward_kl", **GENTLE}]
# Ranks, flags: a step has all pairs.
LAYOUTS = [(2, ["--profile", "zero1", "--per_device_train_batch_size", "12"]),
           (2, ["--profile", "zero2", "--cp_size", "2"]),
           (2, ["--profile", "multi_gpu", "--sp_size", "2", "--per_device_train_batch_size", "6", "--gradient_accumulation_steps", "4"]),
           (4, ["--profile", "zero3", "--cp_size", "2", "--sp_size", "2"]),
           (None, ["--per_device_train_batch_size", "6", "--gradient_accumulation_steps", "4"])]
EXPERTS = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 32,
           "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
           "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": True,
           "max_position_embeddings": 256, "tie_word_embeddings": False, "initializer_range": 0.1}


def random_pairs(count, seed):
    """Texts; every sixth has a long answer, in every fifth the answers begin alike."""
    source = random.Random(seed)

    def text(low, high):
        return "".join(" " + source.choice(WORDS) for _ in range(source.randint(low, high)))

    rows = []
    for number in range(count):
        shared = text(1, 3) if number % 5 == 0 else ""
        chosen, rejected = (text(1, 8) for _ in range(2))
        if number % 6 == 0:
            chosen, rejected = (chosen + text(25, 30), rejected) if number % 12 else (chosen, rejected + text(25, 30))
        rows.append({"prompt": text(2, 9)[1:], "chosen": shared + chosen, "rejected": shared + rejected})
    return rows


def messages(row):
    """The row as a conversation; of every third the prompt has a turn more."""
    turns = [{"role": "user", "content": row["prompt"]}]
    if len(row["prompt"]) % 3 == 0:
        turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "why?"},
                 {"role": "assistant", "content": "it rains"}, *turns]
    return {"prompt": turns, **{side: [{"role": "assistant", "content": row[side].strip()}] for side in ("chosen", "rejected")}}


def without_prompt(row):
    return {side: row["prompt"] + row[side] for side in ("chosen", "rejected")}


def as_flags(settings):
    return [word for key, value in settings.items() for word in ("--" + key, str(value))]


class Pairs(ScoredRows):
    """Pairs, a trainer of them, and TRL's."""

    KEYS = ("loss", "grad_norm", *REWARDS, *LOG_PROBABILITIES)
    traces = {}  # TRL's, by what it was asked for

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = random_pairs(PAIRS, 3)
        cls.file = cls.write("pairs.jsonl", cls.rows)
        cls.tokenizer = AutoTokenizer.from_pretrained(MODEL)

    def train(self, name, *flags, ranks=None, model=MODEL, data=None, command="dpo", **variables):
        return run(command, "--model_name_or_path", model, "--dataset_name", data or self.file, *COMMON, "--per_device_train_batch_size",
                   str(PAIRS), "--data_cache_dir", self.path("cache"), "--output_dir", self.path(name), *flags, ranks=ranks, **variables)

    def trl(self, rows, adapter=None, **settings):
        """The steps that DPOTrainer logs."""
        key = json.dumps([rows, adapter, settings])
        if key not in self.traces:
            model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
            if "rpo_alpha" in settings:
                settings["loss_weights"] = [1.0, settings.pop("rpo_alpha")]
                settings["loss_type"] = [settings.get("loss_type", "sigmoid"), "sft"]
            trainer = DPOTrainer(
                model=PeftModel.from_pretrained(model, adapter, is_trainable=True) if adapter else model,
                args=DPOConfig(output_dir=self.path("trl"), bf16=False, use_cpu=True, gradient_checkpointing=False, report_to="none",
                               save_strategy="no", logging_steps=1, disable_tqdm=True, logging_nan_inf_filter=False,
                               dataloader_pin_memory=False, **{"max_length": LENGTH, "learning_rate": 0.002, "seed": 42, **settings}),
                train_dataset=Dataset.from_list(rows), processing_class=self.tokenizer)
            trainer.remove_callback(PrinterCallback)
            trainer.train()
            self.traces[key] = [line for line in trainer.state.log_history if "loss" in line]
        return self.traces[key]

    def expect_trl(self, ours, theirs):
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4 * max(1, abs(b["loss"])), msg=a["step"])
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * b["grad_norm"] + 1e-9, msg=a["step"])
            for key in (*REWARDS, *LOG_PROBABILITIES):
                self.assertAlmostEqual(a[key], b[key], delta=1e-3, msg=(a["step"], key))
            if a["step"] > 1:  # before that rewards are 0, and their order is one of roundings
                self.assertAlmostEqual(a["rewards/accuracies"], b["rewards/accuracies"], delta=1e-6, msg=a["step"])
            self.assertAlmostEqual(a["learning_rate"], b["learning_rate"], delta=1e-12)
            self.assertEqual(a["num_tokens"], b["num_tokens"])

    def expect_steps(self, ours, theirs):
        self.assertEqual(len(ours), STEPS)
        for a, b in zip(ours, theirs, strict=True):
            for key in self.KEYS:
                self.assertLessEqual(abs(a[key] - b[key]), 1e-5 * max(1, abs(b[key])), (a["step"], key))
            if a["step"] > 1:
                self.assertAlmostEqual(a["rewards/accuracies"], b["rewards/accuracies"], delta=1e-6, msg=a["step"])

    def refuse(self, code, says, *flags, rows=None, **options):
        data = rows and self.write("bad.jsonl", rows)
        self.expect(self.train("refused", "--per_device_train_batch_size", "1", *flags, data=data, **options), code, *says)

    def sides(self, row):
        """Of both answers of a row of texts: the ids of the sequence, and where the answer begins."""
        prompt, *both = (self.tokenizer(text)["input_ids"] for text in (
            row["prompt"], *(row["prompt"] + row[side] + self.tokenizer.eos_token for side in ("chosen", "rejected"))))
        begin = min(next((i for i, (a, b) in enumerate(zip(prompt, ids)) if a != b), len(prompt)) for ids in both)
        return [ids[:LENGTH] for ids in both], begin


class Traces(Pairs):
    def check(self, name, count, settings, adapter=None, flags=()):
        ours = self.steps(name, "--per_device_train_batch_size", str(BATCH), "--max_steps", str(count), *as_flags(settings), *flags)
        theirs = self.trl(self.rows, adapter, per_device_train_batch_size=BATCH, max_steps=count, **settings)
        self.expect_trl(ours, theirs)

    def test_traces_are_those_of_trl(self):
        for count, traces in ((20, LONG_TRACES), (5, some_of(SHORT_TRACES))):
            for number, settings in enumerate(traces):
                with self.subTest(**settings):
                    self.check(f"trace-{count}-{number}", count, settings)

    def test_a_trace_of_an_adapter(self):
        """The reference is the model with the adapter from which the run goes on."""
        self.check("adapter", 5, {"learning_rate": 0.02}, adapter=START, flags=["--adapter_name_or_path", START, "--lora_dropout", "0"])

    def test_conversations_and_implicit_prompts(self):
        chats = [messages(row) for row in self.rows]
        # Words that end alike are cut by an implicit prompt of texts within a token.
        words = [{**row, "chosen": " careful" + row["chosen"], "rejected": " carefully" + row["rejected"]} for row in self.rows]
        forms = {"messages": chats, **{name: [without_prompt(row) for row in rows] for name, rows in (
            ("implicit_texts", self.rows), ("implicit_within_words", words), ("implicit_messages", chats))}}
        for name, rows in forms.items():
            with self.subTest(form=name):
                step, = self.steps(name, "--per_device_train_batch_size", "8", "--max_steps", "1", "--max_length", "96",
                                   data=self.write(name + ".jsonl", rows))
                expected, = self.trl(rows, max_length=96, per_device_train_batch_size=8, max_steps=1)
                self.expect_trl([step], [expected])


class Layouts(Pairs):
    def test_every_layout(self):
        for form, settings in enumerate(({}, {"loss_type": "ipo"}, {"loss_type": "nca_pair"},
                                         {"loss_type": "sigmoid_norm", "f_divergence_type": "js_divergence"})):
            alone = self.steps(f"alone-{form}", *as_flags(settings))
            self.assertLess(alone[-1]["loss"], alone[0]["loss"])
            self.assertGreater(alone[-1]["rewards/margins"], 0.01)
            for number, (ranks, layout) in enumerate(LAYOUTS if form == 0 else LAYOUTS[3:4]):
                with self.subTest(**settings, layout=layout):
                    self.expect_steps(self.steps(f"layout-{form}-{number}", *as_flags(settings), *layout, ranks=ranks), alone)

    def test_adapters_and_experts(self):
        lora = ["--use_peft", "--lora_r", "4", "--lora_dropout", "0", "--learning_rate", "0.02"]
        alone = self.steps("lora", *lora)
        self.assertGreater(alone[-1]["rewards/margins"], 1e-3)
        self.expect_steps(self.steps("lora-2", *lora, *LAYOUTS[1][1], ranks=2), alone)
        model = self.make_model("experts", EXPERTS)
        flags = ["--profile", "zero2", "--ep_size", "2", "--per_device_train_batch_size", "12"]
        self.expect_steps(self.steps("experts-2", *flags, ranks=2, model=model), self.steps("experts-1", model=model))

    def with_another_word(self, number, side):
        """The row with its answer on this side begun by another word, of as many tokens."""
        before, begin = self.sides(self.rows[number])
        for word in WORDS:
            row = {**self.rows[number], side: " " + " ".join((word, *self.rows[number][side].split()[1:]))}
            both, begins = self.sides(row)
            if row != self.rows[number] and begins == begin and [len(ids) for ids in both] == [len(ids) for ids in before]:
                return row
        raise AssertionError("no other word")

    def test_pairs_do_not_leak(self):
        """Another word in one answer: the losses of other pairs, and what is logged of answers of the other side, keep every bit."""
        victim = 9
        steps, losses = [], []
        others = [(side, self.with_another_word(victim, side)) for side in ("rejected", "chosen")]
        for name, row in (("as-it-is", self.rows[victim]), *others):
            # One name of the file, so that a place names the same row.
            file = self.write("turned.jsonl", [*self.rows[:victim], row, *self.rows[victim + 1:]])
            steps += self.steps("documents-" + name, *LAYOUTS[3][1], "--document_log", "all", "--max_steps", "1", ranks=4, data=file)
            shown = run("inspect", self.path("documents-" + name), "--step", "1", "--json")
            self.expect(shown, 0)
            losses.append({f"{file}:{line}": [] for line in range(1, PAIRS + 1)})
            for document in map(json.loads, shown.stdout.splitlines()):
                losses[-1][document["rows_of_dataset"][0]].append((document["targets"], document["loss"]))
            self.assertTrue(all(losses[-1].values()), losses[-1])
        for turned in losses[1:]:
            for place in turned:
                if not place.endswith(f":{victim + 1}"):
                    self.assertEqual(sorted(turned[place]), sorted(losses[0][place]), place)
        for step, same, other in ((steps[1], "chosen", "rejected"), (steps[2], "rejected", "chosen")):
            self.assertEqual(step["logps/" + same], steps[0]["logps/" + same])
            self.assertNotEqual(step["logps/" + other], steps[0]["logps/" + other])

    def test_a_killed_run_goes_on_in_another_layout(self):
        def refuse():
            kept, = glob.glob(self.path("killed", "reference-*"))
            shutil.move(kept, self.path("taken-away"))
            self.expect(self.train("killed", "--save_steps", "1", *LAYOUTS[0][1], ranks=2), 66, os.path.basename(kept))
            with open(self.path("taken-away"), "rb") as file:
                content = bytearray(file.read())
            content[17] ^= 1
            with open(kept, "wb") as file:
                file.write(content)
            self.expect(self.train("killed", "--save_steps", "1", *LAYOUTS[0][1], ranks=2), 65, "damaged")
            shutil.move(self.path("taken-away"), kept)

        self.expect_to_go_on(LAYOUTS[3], LAYOUTS[0], meanwhile=refuse)


class SharedPrompts(Pairs):
    """The tokens that both answers of a pair begin with are computed once, and nothing else changes."""

    def family(self, name):
        with gzip.open(os.path.join(FAMILIES, name + ".json.gz")) as file:
            return self.make_model(name, json.load(file)["config"], vocab_size=512, eos_token_id=0, pad_token_id=0)

    def test_numbers_are_those_of_whole_answers(self):
        for name in (None, *some_of(["gpt_oss", "gemma2", "deepseek_v3", "ministral3"])):
            model = self.family(name) if name else MODEL
            # AdamW takes gradients that are noise as steps of full size.
            flags = ["--adam_epsilon", "1e-5", *(["--router_aux_loss_coef", "0"] if name == "gpt_oss" else [])]
            apart = self.steps(f"apart-{name}", *flags, "--share_prompts", "false", model=model)
            for number, (ranks, layout) in enumerate([(None, []), LAYOUTS[3]]):
                with self.subTest(model=name, layout=layout):
                    shared = self.steps(f"shared-{name}-{number}", *flags, *layout, model=model, ranks=ranks)
                    self.expect_steps(shared, apart)
                    self.assertEqual([step["num_tokens"] for step in shared], [step["num_tokens"] for step in apart])
                    self.assertNotEqual([step["grad_norm"] for step in shared], [step["grad_norm"] for step in apart])

    def test_models_that_read_a_prompt_beside_its_answer(self):
        for name, why in (("qwen3_next", "states pass through"), ("phi3-longrope", "longrope")):
            model = self.family(name)
            done = self.train("apart-" + name, model=model)
            self.expect(done, 0, "prompts of pairs: computed for each answer, since", why)
            self.refuse(78, ["share_prompts", why], "--share_prompts", "true", model=model)
        experts = self.make_model("balanced", EXPERTS)
        self.refuse(78, ["share_prompts", "router_aux_loss_coef"], "--share_prompts", "true", "--router_aux_loss_coef", "0.01", model=experts)
        texts = self.write("texts.jsonl", [{"prompt": row["prompt"], "completion": row["chosen"]} for row in self.rows])
        self.expect(self.train("refused", "--share_prompts", "true", data=texts, command="sft"), 78, "share_prompts")


class Evaluation(Pairs):
    def log_probabilities(self, folder, rows):
        """Of both answers of each pair: pairs x 2."""
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        found = torch.zeros(len(rows), 2, dtype=torch.double)
        with torch.no_grad():
            for number, row in enumerate(rows):
                both, begin = self.sides(row)
                for side, ids in enumerate(both):
                    log_p = model(torch.tensor([ids])).logits[0, :-1].double().log_softmax(-1)
                    found[number, side] = log_p.gather(1, torch.tensor(ids[1:])[:, None])[begin - 1:].sum()
        return found

    def test_evaluation(self):
        others = random_pairs(11, 8)
        file = self.write("others.jsonl", others)
        reference = self.log_probabilities(MODEL, others)
        for number, (ranks, layout) in enumerate([(None, []), LAYOUTS[0], LAYOUTS[1]]):
            with self.subTest(layout=layout):
                name = f"evaluated-{number}"
                self.steps(name, "--eval_on_start", "--eval_dataset_name", file, "--eval_strategy", "steps",
                           "--eval_steps", str(STEPS), "--per_device_eval_batch_size", "4", *layout, ranks=ranks)
                first, last = [line for line in read_metrics(self.path(name)) if "eval_loss" in line]
                self.assertAlmostEqual(first["eval_loss"], math.log(2), delta=2e-6)
                self.assertAlmostEqual(first["eval_rewards/margins"], 0, delta=2e-5)
                ours = self.log_probabilities(self.path(name), others)
                rewards = 0.1 * (ours - reference)
                margins = rewards[:, 0] - rewards[:, 1]
                self.assertGreater(margins.abs().min().item(), 1e-4)  # none is a tie
                for key, numbers in (("loss", -torch.nn.functional.logsigmoid(margins)), ("rewards/margins", margins),
                                     ("rewards/accuracies", (margins > 0).double()), ("rewards/chosen", rewards[:, 0]),
                                     ("rewards/rejected", rewards[:, 1]), ("logps/chosen", ours[:, 0]), ("logps/rejected", ours[:, 1])):
                    expected = numbers.mean().item()
                    self.assertAlmostEqual(last["eval_" + key], expected, delta=2e-5 + 2e-6 * abs(expected), msg=key)

    def test_the_best_model_by_rewards(self):
        flags = ["--eval_dataset_name", self.file, "--eval_strategy", "steps", "--eval_steps", "1", "--save_strategy", "best",
                 "--metric_for_best_model", "rewards/rejected", "--greater_is_better", "false", "--load_best_model_at_end"]
        self.steps("best", *flags)
        evaluated = [line for line in read_metrics(self.path("best")) if "eval_rewards/rejected" in line]
        with open(self.path("best", "trainer_state.json")) as file:
            state = json.load(file)
        with open(self.path("best", "README.md")) as file:
            self.assertIn("after direct preference optimisation on", file.read())
        self.assertEqual(state["best_metric"], min(line["eval_rewards/rejected"] for line in evaluated))
        self.expect(self.train("sft", *flags, command="sft"), 78, "metric_for_best_model")


class BadInput(Pairs):
    def test_rows_that_are_no_pairs(self):
        full = self.rows[0]

        def less(column):
            return {key: value for key, value in full.items() if key != column}

        for side in ("chosen", "rejected"):
            for rows in ([less(side)] * 4, [full, less(side), full]):
                with self.subTest(without=side, rows=len(rows)):
                    self.refuse(65, [side], rows=rows)
        chat = messages(full)
        for rows in ([full, {**full, "chosen": full["rejected"]}], [chat, {**chat, "rejected": chat["chosen"]}],
                     [without_prompt(full), {"chosen": "one text", "rejected": "one text"}]):
            with self.subTest(equal=rows[1]):
                self.refuse(65, ["chosen", "rejected"], rows=rows)
        self.refuse(65, ["chosen"], rows=[{"text": "no pair"}, {"text": "none either"}])
        self.refuse(65, ["chosen"], rows=[{"prompt": "one", "completion": " answer"}] * 2)

    def test_rows_of_pairs_are_for_dpo(self):
        for rows in (self.rows[:4], [messages(row) for row in self.rows[:4]], [without_prompt(row) for row in self.rows[:4]]):
            self.refuse(65, ["trainer dpo"], rows=rows, command="sft")

    def test_prompts_that_fill_max_length_are_dropped(self):
        long = {**self.rows[0], "prompt": " ".join(WORDS)}
        self.assertGreater(self.sides(long)[1], LENGTH)
        flags = ["--per_device_train_batch_size", "4", "--max_steps", "2"]
        ours = self.steps("dropped", *flags, data=self.write("longer.jsonl", [long, *self.rows[:3], long, *self.rows[3:]]))
        for a, b in zip(ours, self.steps("without", *flags), strict=True):
            self.assertEqual([a[key] for key in (*self.KEYS, "num_tokens")], [b[key] for key in (*self.KEYS, "num_tokens")])
        self.refuse(65, ["max_length"], rows=[long] * 4)

    def test_settings_that_are_not_served(self):
        for loss in ("sft", "aot", "aot_unpaired", "dft", '["sigmoid", "hinge"]'):
            with self.subTest(loss_type=loss):
                self.refuse(78, ["loss_type"], "--loss_type", loss)
        self.refuse(78, ["packing"], "--packing")
        self.refuse(78, ["f_divergence_type"], "--loss_type", "bco_pair", "--f_divergence_type", "forward_kl")
        self.refuse(78, ["label_smoothing"], "--loss_type", "exo_pair")
        self.refuse(78, ["discopop_tau"], "--discopop_tau", "0.1")
        self.refuse(78, ["f_alpha_divergence_coef"], "--f_alpha_divergence_coef", "0.7")
        sft = self.write("texts.jsonl", [{"prompt": row["prompt"], "completion": row["chosen"]} for row in self.rows])
        self.expect(self.train("refused", "--loss_type", "sigmoid", data=sft, command="sft"), 78, "loss_type")


if __name__ == "__main__":
    unittest.main()

"""Learning from pairs of answers without a reference: the numbers of TRL's CPOTrainer, in every layout, and what is refused."""

import glob
import json
import os
import shutil
import unittest

from scored_rows import MODEL, STEPS, read_metrics, read_steps, run
import test_preferences  # also sets variables; by its own name, so that its tests are not run here
from test_preferences import BATCH, LAYOUTS, LENGTH, LOG_PROBABILITIES, PAIRS, REWARDS, Pairs, as_flags, messages, random_pairs, without_prompt
from trainer import some_of

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

# Settings in TRL's names.
LONG_TRACES = [{}, {"loss_type": "simpo"}, {"loss_type": "orpo"}]
SHORT_TRACES = [{"loss_type": "ipo"}, {"loss_type": "orpo", "beta": 0.7}, {"loss_type": "alphapo", "simpo_gamma": 1.0}, {"loss_type": "hinge", "beta": 0.02, "cpo_alpha": 0.3},
                {"loss_type": "hinge", "cpo_alpha": 0.0}, {"loss_type": "alphapo", "alpha": 0.3}, {"label_smoothing": 0.1, "cpo_alpha": 0.0},
                {"label_smoothing": 0.1}, {"loss_type": "ipo", "alpha": 0.2, "cpo_alpha": 2.0},
                {"loss_type": "simpo", "label_smoothing": 0.2, "beta": 2.0, "simpo_gamma": 1.2, "alpha": -0.3}]
SHAPED = {"alpha": 0.3}  # of a probability of a whole answer: TRL's are 0 in fp32 where an answer is long
FORMS = [{"loss_type": "orpo", "beta": 0.5}, {"loss_type": "simpo", "cpo_alpha": 0.5}, {"loss_type": "ipo"}, {"loss_type": "hinge", "beta": 0.02},
         {"loss_type": "alphapo", "alpha": 0.2}, {"label_smoothing": 0.1, "alpha": 0.01}]  # in one layout and one rhythm
EVALUATED = [{"loss_type": "orpo", "beta": 0.5, "cpo_alpha": 0.7}, {"loss_type": "simpo", "cpo_alpha": 0.3, "label_smoothing": 0.1, "simpo_gamma": 0.7}, {"loss_type": "ipo", "alpha": -0.3},
             {"alpha": 0.02}, {"loss_type": "hinge", "beta": 0.02}, {"loss_type": "alphapo", "alpha": 0.25}]


def has_nll(settings):
    return settings.get("cpo_alpha", 1) != 0 and settings.get("loss_type") != "alphapo"


ODDS = ("log_odds_chosen", "log_odds_ratio")


def means(sums, counts, learned, loss_type="sigmoid", beta=0.1, cpo_alpha=1.0, simpo_gamma=0.5, alpha=0.0, label_smoothing=0.0):
    """The numbers of these answers, pairs x 2: means over pairs, and over all tokens of chosen answers; `learned`: their cross-entropy with orpo."""
    if loss_type == "alphapo":
        loss_type, cpo_alpha = "simpo", 0.0
    logps = sums / counts if loss_type in ("ipo", "simpo", "orpo") else sums
    rewards = beta * ((1 - torch.exp(-alpha * logps)) / alpha if alpha else logps)
    margins = rewards[:, 0] - rewards[:, 1]
    log_sigmoid = torch.nn.functional.logsigmoid
    wanted = margins - (simpo_gamma if loss_type == "simpo" else 0)
    odds = logps - torch.log1p(-torch.exp(logps))
    odds = odds[:, 0] - odds[:, 1]
    loss = {"orpo": -beta * log_sigmoid(odds), "hinge": torch.relu(1 - margins), "ipo": (margins / beta - 1 / (2 * beta)) ** 2}.get(
        loss_type, -(1 - label_smoothing) * log_sigmoid(wanted) - label_smoothing * log_sigmoid(-wanted)).mean()
    found = {"rewards/chosen": rewards[:, 0].mean(), "rewards/rejected": rewards[:, 1].mean(), "rewards/margins": margins.mean(),
             "rewards/accuracies": (margins > 0).double().mean(), "logps/chosen": logps[:, 0].mean(), "logps/rejected": logps[:, 1].mean()}
    if loss_type == "orpo":
        found |= {"log_odds_chosen": odds.mean(), "log_odds_ratio": log_sigmoid(odds).mean()}
    if cpo_alpha:
        found["nll_loss"] = learned if loss_type == "orpo" else -sums[:, 0].sum() / counts[:, 0].sum()
        loss = loss + cpo_alpha * found["nll_loss"]
    return {key: value.item() for key, value in {"loss": loss, **found}.items()}


class WithoutReference(Pairs):
    """A trainer of pairs that keeps no reference, and TRL's."""

    def train(self, name, *flags, command="cpo", **options):
        result = super().train(name, *flags, command=command, **options)
        self.assertEqual(glob.glob(self.path(name, "reference-*")), [])
        return result

    def trl(self, rows, tokenizer=None, **settings):
        """The steps that CPOTrainer logs, or ORPOTrainer."""
        has_odds = settings.get("loss_type") == "orpo"
        make, config = (ORPOTrainer, ORPOConfig) if has_odds else (CPOTrainer, CPOConfig)
        if has_odds:
            del settings["loss_type"]
        trainer = make(
            model=AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32), train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer or self.tokenizer,
            args=config(output_dir=self.path("trl"), bf16=False, use_cpu=True, gradient_checkpointing=False, report_to="none",
                           save_strategy="no", logging_steps=1, disable_tqdm=True, logging_nan_inf_filter=False, dataloader_pin_memory=False,
                           remove_unused_columns=False, **{"max_length": LENGTH, "learning_rate": 0.002, "seed": 42, **settings}))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return [line for line in trainer.state.log_history if "loss" in line]

    def expect_trl(self, ours, theirs, with_nll=True):
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4 * max(1, abs(b["loss"])), msg=a["step"])
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * b["grad_norm"] + 1e-9, msg=a["step"])
            self.assertEqual("nll_loss" in a, with_nll)
            for key in REWARDS:
                self.assertAlmostEqual(a[key], b[key], delta=1e-3 * max(1, abs(b[key]) / 10), msg=(a["step"], key))
            self.assertEqual(ODDS[0] in a, ODDS[0] in b)
            for key in (*LOG_PROBABILITIES, *["nll_loss"] * with_nll, *ODDS * (ODDS[0] in a)):
                self.assertAlmostEqual(a[key], b[key], delta=1e-3, msg=(a["step"], key))
            self.assertAlmostEqual(a["rewards/accuracies"], b["rewards/accuracies"], delta=1e-6, msg=a["step"])
            self.assertAlmostEqual(a["learning_rate"], b["learning_rate"], delta=1e-12)

    def expect_steps(self, ours, theirs):
        """KEYS of two of our runs, and what else no layout changes."""
        super().expect_steps(ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            self.assertAlmostEqual(a["rewards/accuracies"], b["rewards/accuracies"], delta=1e-6, msg=a["step"])
            self.assertEqual(a["num_tokens"], b["num_tokens"])
            self.assertEqual("nll_loss" in a, "nll_loss" in b)
            for key in ODDS * (ODDS[0] in b):
                self.assertAlmostEqual(a[key], b[key], delta=1e-5 * max(1, abs(b[key])), msg=(a["step"], key))
            if "nll_loss" in b:
                self.assertLessEqual(abs(a["nll_loss"] - b["nll_loss"]), 1e-5 * b["nll_loss"], a["step"])


class Traces(WithoutReference):
    def check(self, name, count, settings, rows=None):
        flags = ["--per_device_train_batch_size", str(BATCH), "--max_steps", str(count), *as_flags(settings)]
        ours = self.steps(name, *flags, data=rows and self.write(name + ".jsonl", rows))
        theirs = self.trl(rows or self.rows, per_device_train_batch_size=BATCH, max_steps=count, **settings)
        self.expect_trl(ours, theirs, has_nll(settings))

    def test_traces_are_those_of_trl(self):
        for count, traces in ((20, LONG_TRACES), (5, some_of(SHORT_TRACES))):
            for number, settings in enumerate(traces):
                with self.subTest(**settings):
                    self.check(f"trace-{count}-{number}", count, settings)

    def test_a_trace_of_shaped_rewards(self):
        rows = [{"prompt": row["prompt"], **{side: " " + row[side].split()[-1] for side in ("chosen", "rejected")}} for row in self.rows]
        rows = [row for row in rows if row["chosen"] != row["rejected"]]
        self.assertGreater(len(rows), PAIRS // 2)
        self.check("shaped", 5, SHAPED, rows)

    def test_odds_without_prompts(self):
        """completion_only_loss leaves the prompts out of the cross-entropy, which is then that of simpo."""
        flags = ["--per_device_train_batch_size", str(BATCH), "--max_steps", "1"]
        odds, = self.steps("answers-alone", *flags, "--loss_type", "orpo", "--completion_only_loss", "true")
        simpo, = self.steps("of-simpo", *flags, "--loss_type", "simpo")
        with_prompts, = self.steps("with-prompts", *flags, "--loss_type", "orpo", "--completion_only_loss", "false")
        self.assertEqual(odds["nll_loss"], simpo["nll_loss"])
        self.assertNotAlmostEqual(odds["nll_loss"], with_prompts["nll_loss"], delta=1e-3)
        self.assertAlmostEqual(odds["loss"], odds["nll_loss"] - 0.1 * odds["log_odds_ratio"], delta=1e-6)
        for key in (*REWARDS, *LOG_PROBABILITIES, *ODDS):
            self.assertAlmostEqual(odds[key], with_prompts[key], delta=1e-6, msg=key)

    def pair_steps(self, name, command, *flags, **options):
        self.expect(Pairs.train(self, name, *flags, command=command, **options), 0)
        return read_steps(self.path(name))

    def test_likelihood_per_answer(self):
        """Of one pair it is the mean over tokens, of several not: means of answers, whatever the layout."""
        for name, command, flags in (("odds", "cpo", ["--loss_type", "orpo", "--completion_only_loss", "true", "--cpo_alpha", "0.7"]),
                                     ("prompts", "cpo", ["--loss_type", "orpo"]), ("reference", "dpo", ["--rpo_alpha", "0.7"])):
            with self.subTest(name):
                flags = ["--max_steps", "1", *flags]
                for rows in (1, BATCH):
                    size = ["--per_device_train_batch_size", str(rows)]
                    whole, = self.pair_steps(f"{name}-of-tokens-{rows}", command, *flags, *size)
                    mean, = self.pair_steps(f"{name}-of-answers-{rows}", command, *flags, *size, "--likelihood_per_answer", "true")
                    close = all(abs(mean[key] - whole[key]) < 1e-5 * abs(whole[key]) for key in ("loss", "grad_norm", "nll_loss"))
                    self.assertEqual(close, rows == 1)
                if name == "odds":
                    self.assertAlmostEqual(mean["nll_loss"], -mean["logps/chosen"], delta=1e-6)
                    self.assertAlmostEqual(mean["loss"], 0.7 * mean["nll_loss"] - 0.1 * mean["log_odds_ratio"], delta=1e-6)
                split, = self.pair_steps(name + "-split", command, *flags, *size, "--likelihood_per_answer", "true", "--cp_size", "2", ranks=2)
                for key in ("loss", "grad_norm", "nll_loss"):
                    self.assertAlmostEqual(split[key], mean[key], delta=1e-5 * abs(mean[key]))

    def test_conversations_and_implicit_prompts(self):
        """The chat template ends with EOS; behind one that ends otherwise TRL adds an EOS."""
        folder = shutil.copytree(MODEL, self.path("model"))
        with open(os.path.join(folder, "chat_template.jinja")) as file:
            template = file.read()
        with open(os.path.join(folder, "chat_template.jinja"), "w") as file:
            file.write(template.replace("'<|im_end|>' + '\\n'", "'<|im_end|>'"))
        chats = [messages(row) for row in self.rows]
        for name, rows in {"messages": chats, "implicit_texts": [without_prompt(row) for row in self.rows],
                           "implicit_messages": [without_prompt(row) for row in chats]}.items():
            with self.subTest(form=name):
                step, = self.steps(name, "--per_device_train_batch_size", "8", "--max_steps", "1", "--max_length", "96",
                                   data=self.write(name + ".jsonl", rows), model=folder)
                expected = self.trl(rows, AutoTokenizer.from_pretrained(folder), max_length=96, per_device_train_batch_size=8, max_steps=1)
                self.expect_trl([step], expected)


class Layouts(WithoutReference):
    def test_every_layout(self):
        for form, settings in enumerate([{}, *some_of(FORMS)]):
            alone = self.steps(f"alone-{form}", *as_flags(settings))
            self.assertLess(alone[-1]["loss"], alone[0]["loss"])
            self.assertGreater(alone[-1]["rewards/margins"] - alone[0]["rewards/margins"], 1e-3)
            for number, (ranks, layout) in enumerate(LAYOUTS if form == 0 else [LAYOUTS[3], LAYOUTS[4]]):
                with self.subTest(**settings, layout=layout):
                    self.expect_steps(self.steps(f"layout-{form}-{number}", *as_flags(settings), *layout, ranks=ranks), alone)

    def test_an_adapter(self):
        lora = ["--use_peft", "--lora_r", "4", "--lora_dropout", "0", "--learning_rate", "0.02"]
        alone = self.steps("lora", *lora)
        self.assertLess(alone[-1]["loss"], alone[0]["loss"])
        self.expect_steps(self.steps("lora-2", *lora, *LAYOUTS[1][1], ranks=2), alone)

    def test_pairs_do_not_leak(self):
        """Another word in one answer: the losses of other pairs, and what is logged of answers of the other side, keep every bit."""
        self.expect_no_leak("--cpo_alpha", "0")

    def test_learned_prompts_do_not_leak(self):
        self.expect_no_leak("--loss_type", "orpo", "--cpo_alpha", "0")

    def expect_no_leak(self, *flags):
        victim = 9
        steps, losses = [], []
        others = [(side, test_preferences.Layouts.with_another_word(self, victim, side)) for side in ("rejected", "chosen")]
        for name, row in (("as-it-is", self.rows[victim]), *others):
            # One name of the file, so that a place names the same row.
            file = self.write("turned.jsonl", [*self.rows[:victim], row, *self.rows[victim + 1:]])
            steps += self.steps(f"documents-{name}-{flags[1]}", *LAYOUTS[3][1], *flags, "--document_log", "all", "--max_steps", "1",
                                ranks=4, data=file)
            shown = run("inspect", self.path(f"documents-{name}-{flags[1]}"), "--step", "1", "--json")
            self.expect(shown, 0)
            losses.append({f"{file}:{line}": [] for line in range(1, PAIRS + 1)})
            for document in map(json.loads, shown.stdout.splitlines()):
                losses[-1][document["rows_of_dataset"][0]].append((document["targets"], document["loss"]))
            self.assertTrue(all(losses[-1].values()), losses[-1])
        for turned in losses[1:]:
            for place in turned:
                compare = self.assertNotEqual if place.endswith(f":{victim + 1}") else self.assertEqual
                compare(sorted(turned[place]), sorted(losses[0][place]), place)
        for step, same, other in ((steps[1], "chosen", "rejected"), (steps[2], "rejected", "chosen")):
            self.assertEqual(step["logps/" + same], steps[0]["logps/" + same])
            self.assertNotEqual(step["logps/" + other], steps[0]["logps/" + other])
            self.assertNotIn("nll_loss", step)

    def test_a_killed_run_goes_on_in_another_layout(self):
        self.expect_to_go_on(LAYOUTS[3], LAYOUTS[0])


class Evaluation(WithoutReference):
    def cross_entropy(self, model, rows):
        """Of chosen sides with their prompts: the mean over all tokens."""
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        total, count = 0, 0
        for row in rows:
            ids = torch.tensor([self.sides(row)[0][0]])
            with torch.no_grad():
                total += loaded(ids, labels=ids).loss.item() * (ids.numel() - 1)
            count += ids.numel() - 1
        return torch.tensor(total / count, dtype=torch.double)

    def expect_evaluation(self, line, sums, counts, learned, settings):
        for key, expected in means(sums, counts, learned, **settings).items():
            self.assertAlmostEqual(line["eval_" + key], expected, delta=2e-5 + 2e-6 * abs(expected), msg=key)
        self.assertEqual("eval_nll_loss" in line, has_nll(settings))
        self.assertEqual("eval_" + ODDS[0] in line, settings.get("loss_type") == "orpo")

    def test_evaluation(self):
        others = random_pairs(11, 8)
        file = self.write("others.jsonl", others)
        counts = torch.tensor([[len(ids) - begin for ids in both] for both, begin in map(self.sides, others)], dtype=torch.double)
        before = test_preferences.Evaluation.log_probabilities(self, MODEL, others)
        parts = [means(before[i:i + 4], counts[i:i + 4], None)["loss"] for i in range(0, len(others), 4)]
        self.assertGreater(abs(means(before, counts, None)["loss"] - sum(parts) / len(parts)), 0.01)  # another number than the mean of batches
        runs = [({}, layout) for layout in ((None, []), LAYOUTS[0], LAYOUTS[1])]
        runs += [(settings, LAYOUTS[number % 2 * 3]) for number, settings in enumerate(some_of(EVALUATED))]
        for number, (settings, (ranks, layout)) in enumerate(runs):
            with self.subTest(**settings, layout=layout):
                name = f"evaluated-{number}"
                self.steps(name, *as_flags(settings), "--eval_on_start", "--eval_dataset_name", file, "--eval_strategy", "steps",
                           "--eval_steps", str(STEPS), "--per_device_eval_batch_size", "4", *layout, ranks=ranks)
                first, last = [line for line in read_metrics(self.path(name)) if "eval_loss" in line]
                self.expect_evaluation(first, before, counts, self.cross_entropy(MODEL, others), settings)
                after = test_preferences.Evaluation.log_probabilities(self, self.path(name), others)
                self.expect_evaluation(last, after, counts, self.cross_entropy(self.path(name), others), settings)


class Settings(WithoutReference):
    def test_the_defaults_are_those_of_trl(self):
        common = ["--model_name_or_path", MODEL, "--dataset_name", self.file, "--bf16", "false", "--max_length", "48", "--logging_steps", "1",
                  "--max_steps", "2", "--data_cache_dir", self.path("cache")]
        for loss, further in (("sigmoid", {}), ("simpo", {"simpo_gamma": 0.5})):
            spelled = {"loss_type": loss, "beta": 0.1, "cpo_alpha": 1.0, "alpha": 0.0, "label_smoothing": 0.0, "learning_rate": 1e-6, **further}
            chosen = [] if loss == "sigmoid" else ["--loss_type", loss]
            self.expect(run("train", "--method", "cpo", *common, *chosen, "--output_dir", self.path("plain-" + loss)), 0)
            self.expect(run("cpo", *common, *as_flags(spelled), "--output_dir", self.path("spelled-" + loss)), 0)
            steps = [read_steps(self.path(name + loss)) for name in ("plain-", "spelled-")]
            self.assertEqual(steps[0][0]["learning_rate"], 1e-6)
            for a, b in zip(*steps, strict=True):
                for key in (*self.KEYS, "learning_rate", "nll_loss"):
                    self.assertEqual(a[key], b[key], key)

    def refuse(self, setting, *flags, **options):
        with self.subTest(flags=flags, **options):
            refused = self.train("refused", *flags, **options)
            self.expect(refused, 78)
            self.assertRegex(refused.stderr, rf"\b{setting} = ")

    def test_settings_that_do_not_go_together(self):
        for loss in ("robust", "exo_pair", "nll"):
            self.refuse("loss_type", "--loss_type", loss)
        for loss in ("simpo", "alphapo"):
            self.refuse("loss_type", "--loss_type", loss, command="dpo")
        self.refuse("simpo_gamma", "--simpo_gamma", "0.7")
        for name in ("cpo_alpha", "simpo_gamma", "alpha"):
            self.refuse(name, "--" + name, "0.5", command="dpo")
        self.refuse("alpha", "--loss_type", "orpo", "--alpha", "0.1")
        self.refuse("likelihood_per_answer", "--cpo_alpha", "0", "--likelihood_per_answer", "true")
        self.refuse("likelihood_per_answer", "--likelihood_per_answer", "true", command="dpo")
        self.refuse("loss_type", "--loss_type", "orpo", command="dpo")
        self.refuse("f_divergence_type", "--f_divergence_type", "forward_kl")
        self.refuse("cpo_alpha", "--cpo_alpha", "-0.1")
        for loss in ("hinge", "ipo", "orpo"):
            self.refuse("label_smoothing", "--loss_type", loss, "--label_smoothing", "0.1")
        self.refuse("label_smoothing", "--label_smoothing", "0.5")

    def test_rows_that_are_no_pairs(self):
        without = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in self.rows]
        self.expect(self.train("refused", data=self.write("completions.jsonl", without)), 65, "chosen")
        same = [*self.rows[:3], {**self.rows[3], "chosen": self.rows[3]["rejected"]}]
        self.expect(self.train("refused", data=self.write("same.jsonl", same)), 65, "chosen", "rejected")


if __name__ == "__main__":
    unittest.main()

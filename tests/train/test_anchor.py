"""Rows against forgetting: the divergence from the base model beside the run's own loss, in every layout, and what is refused."""

import json
import os
import unittest

from scored_rows import COMMON, MODEL, TOP, ScoredRows, random_rows, read_metrics, run

import torch
from transformers import AutoModelForCausalLM

DATA_ROWS, ANCHOR_ROWS = 12, 8
ROWS = DATA_ROWS + ANCHOR_ROWS
FORMS = [["--loss_type", "dft", "--anchor_weight", "0.5"], ["--label_smoothing_factor", "0.1"], ["--loss_type", "eaft"]]
# A step has all rows.
LAYOUTS = [(2, ["--profile", "zero3", "--per_device_train_batch_size", "10"]),
           (2, ["--profile", "zero2", "--cp_size", "2"]),
           (2, ["--profile", "multi_gpu", "--sp_size", "2", "--per_device_train_batch_size", "5", "--gradient_accumulation_steps", "4"]),
           (4, ["--profile", "zero3", "--cp_size", "2", "--sp_size", "2"])]


class Anchor(ScoredRows):
    KEYS = ("loss", "anchor_divergence", "anchor_share", "data_loss", "grad_norm", "entropy")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rows = random_rows(ROWS, 5)
        cls.data, cls.replayed = rows[:DATA_ROWS], rows[DATA_ROWS:]
        cls.data_file = cls.write("data.jsonl", cls.data)
        cls.anchor_file = cls.write("anchor.jsonl", cls.replayed)
        cls.base = cls.make_model("base", MODEL, initializer_range=0.3)
        for name, flags in (("scores", []), ("warm", ["--temperature", "2"]), ("none", ["--top_k", "0"])):
            result = cls.score(name, cls.base, *flags, ranks=2)
            assert result.returncode == 0, result.stderr

    @classmethod
    def score(cls, name, model, *flags, ranks=None):
        return cls.score_rows(name, model, cls.anchor_file, *flags, ranks=ranks)

    def train(self, name, *flags, ranks=None, scores="scores", **variables):
        return run("train", "--model_name_or_path", MODEL, "--dataset_name", self.data_file, *COMMON, "--per_device_train_batch_size", str(ROWS),
                   "--data_cache_dir", self.path("cache"), "--anchor", self.path(scores), "--output_dir", self.path(name), *flags,
                   ranks=ranks, **variables)

    def reference(self, is_dft, weight):
        """The numbers of the first step, in double precision."""
        model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float64, attn_implementation="eager")
        base = AutoModelForCausalLM.from_pretrained(self.base, dtype=torch.float64, attn_implementation="eager")

        def log_probs(of_model, row):
            labels = torch.tensor(row["labels"][1:])
            return of_model(torch.tensor([row["input_ids"]])).logits[0, :-1].log_softmax(-1)[labels != -100], labels[labels != -100]

        def with_tail(some):
            return torch.cat([some, torch.log1p(-some.exp().sum(-1, keepdim=True).clamp(max=1 - 1e-7))], -1)

        losses, divergences = [], []
        for row in self.data:
            log_p, labels = log_probs(model, row)
            loss = -log_p.gather(1, labels[:, None])[:, 0]
            losses.append(loss * (-loss).exp().detach() if is_dft else loss)
        for row in self.replayed:
            log_p, _ = log_probs(model, row)
            with torch.no_grad():
                top = log_probs(base, row)[0].topk(TOP)
            ours, theirs = with_tail(log_p.gather(1, top.indices)), with_tail(top.values)
            divergences.append((theirs.exp() * (theirs - ours)).sum(-1))
        losses, divergences = torch.cat(losses), torch.cat(divergences)
        count = len(losses) + len(divergences)
        loss = (losses.sum() + weight * divergences.sum()) / count
        loss.backward()
        norm = torch.stack([weight.grad.norm() for weight in model.parameters()]).norm()
        return {"loss": loss, "anchor_divergence": divergences.mean(), "anchor_share": torch.tensor(len(divergences) / count),
                "data_loss": losses.mean(), "grad_norm": norm}

    def test_numbers_are_those_of_a_plain_reference(self):
        for number, (is_dft, weight) in enumerate([(False, 1), (True, 2.5), (False, 0)]):
            with self.subTest(is_dft=is_dft, weight=weight):
                step = self.steps(f"plain-{number}", "--loss_type", "dft" if is_dft else "nll", "--anchor_weight", str(weight), "--max_steps", "1")[0]
                for key, expected in self.reference(is_dft, weight).items():
                    self.assertAlmostEqual(step[key], expected.item(), delta=1e-5 * expected.item(), msg=key)

    def test_the_divergence_begins_at_0_and_holds_the_model(self):
        self.expect(self.score("own", MODEL), 0)
        free, held = (self.steps(f"held-{weight}", "--anchor_weight", str(weight), "--max_steps", "6", "--lr_scheduler_type", "constant",
                                 scores="own") for weight in (0, 20))
        self.assertLess(abs(free[0]["anchor_divergence"]), 1e-6)
        self.assertGreater(free[-1]["anchor_divergence"], 1e-3)
        self.assertLess(held[-1]["anchor_divergence"], 0.5 * free[-1]["anchor_divergence"])
        self.assertLess(held[-1]["data_loss"], held[0]["data_loss"])

    def test_every_layout(self):
        for form, flags in enumerate(FORMS):
            alone = self.steps(f"alone-{form}", *flags)
            for number, (ranks, layout) in enumerate(LAYOUTS if form == 0 else LAYOUTS[-1:]):
                with self.subTest(flags=flags, layout=layout):
                    self.expect_steps(self.steps(f"layout-{form}-{number}", *flags, *layout, ranks=ranks), alone)
        packed = ["--packing", "--padding_free"]
        for number, (ranks, layout) in enumerate([(None, []), (2, ["--cp_size", "2"])]):
            with self.subTest(packed=layout):
                self.expect_steps(self.steps(f"packed-{number}", *FORMS[-1], *packed, *layout, ranks=ranks), alone)

    def test_with_adapters(self):
        lora = ["--use_peft", "--lora_r", "4"]
        self.expect_steps(self.steps("lora-2", *lora, *LAYOUTS[1][1], ranks=2), self.steps("lora", *lora))

    def test_a_killed_run_goes_on_in_another_layout(self):
        def refuse():
            self.expect(self.train("killed", *FORMS[0], "--save_steps", "1", "--anchor_weight", "0.25"), 78, "anchor_weight")

        self.expect_to_go_on(LAYOUTS[3], LAYOUTS[0], *FORMS[0], meanwhile=refuse)

    def test_steps_without_rows_of_one_kind(self):
        """Their numbers are null; a line of several steps has the mean over those that have some."""
        one_by_one = ["--per_device_train_batch_size", "1", "--max_steps", str(ROWS), "--learning_rate", "0"]
        lines = self.steps("single", *one_by_one)
        shares = [line["anchor_share"] for line in lines]
        self.assertEqual((shares.count(1), shares.count(0)), (ANCHOR_ROWS, DATA_ROWS))
        for line in lines:
            self.assertEqual(line["anchor_divergence"] is None, line["anchor_share"] == 0)
            self.assertEqual(line["data_loss"] is None, line["anchor_share"] == 1)
        window = self.steps("window", *one_by_one, "--logging_steps", str(ROWS))
        self.assertEqual(len(window), 1)
        found = [line["anchor_divergence"] for line in lines if line["anchor_share"]]
        self.assertAlmostEqual(window[0]["anchor_divergence"], sum(found) / len(found), delta=1e-5)

    def test_a_mixture_and_a_split_stay_as_without_an_anchor(self):
        def evaluated(name, *flags):
            result = run("train", "--model_name_or_path", MODEL, *COMMON, "--max_steps", "1", "--data_cache_dir", self.path("cache"),
                         "--output_dir", self.path(name), *flags)
            self.expect(result, 0)
            return [line["eval_loss"] for line in read_metrics(self.path(name)) if "eval_loss" in line], result.stderr

        split = ["--dataset_name", self.data_file, "--test_split_size", "4", "--eval_on_start"]
        anchor = ["--anchor", self.path("scores"), "--anchor_weight", "0"]
        self.assertEqual(evaluated("split", *split)[0][0], evaluated("split-anchor", *split, *anchor)[0][0])
        mixture = json.dumps([{"path": self.write("a.jsonl", self.data[:4]), "weight": 1}, {"path": self.write("b.jsonl", self.data[4:]), "weight": 3}])
        report = evaluated("mixture", "--datasets", mixture, *anchor)[1]
        self.assertIn(f"{ANCHOR_ROWS} of {self.path('scores')}, which has {ANCHOR_ROWS}", report)
        self.assertNotIn("not used", report)

    def test_settings_of_conversations_and_texts_leave_an_anchor_alone(self):
        texts = self.write("texts.jsonl", [{"prompt": "the sea", "completion": f" is <think>{n}</think> green"} for n in range(4)])
        step = self.steps("texts", "--dataset_name", texts, "--mask_reasoning", "true", "--max_steps", "1")[0]
        self.assertGreater(step["anchor_share"], 0)
        plain = self.steps("data", "--max_steps", "1")[0]
        self.assertAlmostEqual(step["anchor_divergence"], plain["anchor_divergence"], delta=1e-5)

    def test_scores_of_a_document_reach_no_other(self):
        losses = [[(document["loss"], document["targets"]) for document in documents]
                  for documents in self.losses_of_documents(self.replayed[3]["input_ids"])]
        self.assertEqual(len(losses[0]), ROWS)
        self.assertEqual(sum(a != b for a, b in zip(*losses, strict=True)), 1)

    def test_what_is_refused(self):
        def refuse(code, says, *flags, scores="scores"):
            self.expect(self.train("refused", *flags, scores=scores), code, *says)

        cure = "score its rows with the base model"
        refuse(65, ["anchor = " + self.anchor_file + ": is no file of scores; " + cure], scores="anchor.jsonl")
        os.makedirs(self.path("empty"))
        refuse(65, ["anchor = " + self.path("empty") + ": holds no .parquet file of scores; " + cure], scores="empty")
        refuse(66, ["anchor = " + self.path("nowhere") + ": cannot be read"], scores="nowhere")
        refuse(65, ["has no column top_ids; `trainer score --top_k N` writes it"], scores="none")
        refuse(65, ["are of temperature 2, and the run has temperature = 1; score again with `trainer score --temperature 1`"], scores="warm")

        def with_token(row):
            row["top_ids"] = [[512, *ids[1:]] if ids else [] for ids in row["top_ids"]]

        refuse(65, ["anchor: the scores, 8 of each token, hold the token 512"], scores=self.changed_scores("of-another", with_token))

        def unlearn(row):
            row["learned"] = [False for _ in row["learned"]]

        refuse(65, ["anchor = " + self.path("unlearned") + ": no row has anything to learn within max_length"],
               scores=self.changed_scores("unlearned", unlearn))
        unlabelled = self.write("unlabelled.jsonl", [{"input_ids": [5, 6, 7], "labels": [-100] * 3}])
        refuse(65, ["dataset_name = " + unlabelled + ": no row has anything to learn within max_length"], "--dataset_name", unlabelled)
        refuse(78, ["anchor", "teacher_scores", "leave one of them out"], "--teacher_scores", self.path("scores"))
        refuse(78, ["packing_strategy", "anchor"], "--packing", "--packing_strategy", "wrapped")
        refuse(78, ["anchor_weight", "-1"], "--anchor_weight", "-1")
        alone = run("train", "--model_name_or_path", MODEL, "--dataset_name", self.data_file, "--anchor_weight", "2")
        self.expect(alone, 78, "anchor_weight", "name the anchor")

        # A run goes on with the scores that it began with.
        self.steps("goes-on", "--save_steps", "1", "--max_steps", "1")

        def colder(row):
            row["top_logprobs"] = [[value - 0.5 for value in values] for values in row["top_logprobs"]]

        self.assertNotEqual(self.train("goes-on", "--save_steps", "1", "--max_steps", "2", scores=self.changed_scores("colder", colder)).returncode, 0)


if __name__ == "__main__":
    unittest.main()

"""Learning from stored log-probabilities: TRL's divergences, in every layout, and what is refused."""

import os
import shutil
import unittest

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
from scored_rows import COMMON, MODEL, TOP, ScoredRows, random_rows, read_metrics, run  # noqa: E402

import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from trl.experimental.gkd import GKDTrainer  # noqa: E402
from trl.experimental.server_distillation.server_distillation_trainer import _add_tail_bucket, _jsd_divergence  # noqa: E402

ROWS = 16
FORMS = [["--beta", "0"], ["--beta", "1", "--loss_top_k", "3"], ["--beta", "0.5", "--loss_add_tail", "false", "--sft_alpha", "0.4"]]
# A step has all rows.
LAYOUTS = [(2, ["--profile", "zero1", "--per_device_train_batch_size", "8"]),
           (2, ["--profile", "zero2", "--cp_size", "2", "--per_device_train_batch_size", "16"]),
           (2, ["--profile", "multi_gpu", "--sp_size", "2", "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "4"]),
           (4, ["--profile", "zero3", "--cp_size", "2", "--sp_size", "2", "--per_device_train_batch_size", "16"])]
EXPERTS = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 32,
           "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
           "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": True,
           "max_position_embeddings": 256, "tie_word_embeddings": False, "initializer_range": 0.1}


class Distillation(ScoredRows):
    KEYS = ("loss", "divergence", "data_loss", "grad_norm", "entropy")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = random_rows(ROWS, 3)
        cls.file = cls.write("rows.jsonl", cls.rows)
        cls.teacher = cls.make_model("teacher", MODEL, initializer_range=0.3)
        for name, flags in (("scores", []), ("warm", ["--temperature", "2"]), ("whole", ["--top_k", "512"])):
            result = cls.score(name, *flags, ranks=3)
            assert result.returncode == 0, result.stderr

    @classmethod
    def score(cls, name, *flags, ranks=None, data=None):
        return cls.score_rows(name, cls.teacher, data or cls.file, "--profile", "zero3", *flags, ranks=ranks)

    def train(self, name, *flags, ranks=None, scores="scores", model=MODEL, **variables):
        return run("train", "--model_name_or_path", model, "--dataset_name", self.file, *COMMON, "--per_device_train_batch_size", str(ROWS),
                   "--data_cache_dir", self.path("cache"), "--teacher_scores", self.path(scores), "--output_dir", self.path(name), *flags,
                   ranks=ranks, **variables)

    def logits(self, folder):
        """Of the places that predict a target, with the targets."""
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            found = [model(torch.tensor([row["input_ids"]])).logits[0, :-1].double() for row in self.rows]
        return self.targets(found), self.targets([torch.tensor(row["labels"][1:]) for row in self.rows])

    def targets(self, by_row):
        labels = torch.tensor([label for row in self.rows for label in row["labels"][1:]])
        return torch.cat(by_row)[labels != -100]

    def trl(self, student, teacher, beta, temperature, k, tail):
        """The mean of the divergence that TRL computes from a teacher's most likely tokens."""
        found = (teacher / temperature).log_softmax(-1).topk(k)
        ours = (student / temperature).log_softmax(-1).gather(1, found.indices)
        mask = torch.ones_like(ours, dtype=torch.bool)
        if tail:
            (ours, support), theirs = _add_tail_bucket(ours, mask), _add_tail_bucket(found.values, mask)[0]
        else:
            ours, theirs, support = ours.log_softmax(-1), found.values.log_softmax(-1), mask
        return _jsd_divergence(ours, theirs, beta, support).sum(-1).mean().item()

    def test_losses_are_those_of_trl(self):
        student, labels = self.logits(MODEL)
        teacher, _ = self.logits(self.teacher)
        data = torch.nn.functional.cross_entropy(student, labels).item()
        for number, (scores, beta, temperature, k, tail, of_data) in enumerate([
                ("scores", 0, 1, TOP, True, 0), ("scores", 1, 1, 3, True, 0.5), ("scores", 0.5, 1, TOP, False, 0),
                ("warm", 0.3, 2, TOP, True, 0.5), ("whole", 0.5, 1, 512, False, 0)]):
            with self.subTest(scores=scores, beta=beta):
                step = self.steps(f"trl-{number}", "--beta", str(beta), "--temperature", str(temperature), "--loss_top_k", str(k),
                                  "--loss_add_tail", str(tail).lower(), "--sft_alpha", str(of_data), "--max_steps", "1", scores=scores)[0]
                expected = self.trl(student, teacher, beta, temperature, k, tail)
                self.assertAlmostEqual(step["divergence"], expected, delta=1e-5 * expected)
                self.assertAlmostEqual(step["data_loss"], data, delta=1e-5 * data)
                self.assertAlmostEqual(step["loss"], expected + of_data * data, delta=1e-5 * step["loss"])
                if k == 512:
                    whole = GKDTrainer.generalized_jsd_loss(student[None], teacher[None], torch.ones(1, len(student)), beta, temperature).item()
                    self.assertAlmostEqual(step["divergence"], whole, delta=1e-5 * whole)

    def test_steps_are_those_of_trls_loss(self):
        """20 steps of AdamW on the loss of GKDTrainer, from all tokens of the teacher."""
        count, beta = 20, 0.5
        ours = self.steps("trace", "--beta", str(beta), "--loss_add_tail", "false", "--max_steps", str(count), "--max_grad_norm", "0.5", scores="whole")
        teacher, labels = self.logits(self.teacher)
        model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.002, weight_decay=0)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / count)
        for step in ours:
            student = self.targets([model(torch.tensor([row["input_ids"]])).logits[0, :-1] for row in self.rows])
            loss = GKDTrainer.generalized_jsd_loss(student[None], teacher[None].float(), torch.ones(1, len(labels)), beta, 1.0,
                                                   num_items_in_batch=len(labels))
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item()
            optimizer.step()
            schedule.step()
            self.assertAlmostEqual(step["loss"], loss.item(), delta=1e-4 * loss.item())
            self.assertAlmostEqual(step["grad_norm"], norm, delta=1e-3 * norm)

    def test_every_layout(self):
        for form, flags in enumerate(FORMS):
            alone = self.steps(f"alone-{form}", *flags)
            self.assertLess(alone[-1]["loss"], alone[0]["loss"])
            for number, (ranks, layout) in enumerate(LAYOUTS if form == 2 else LAYOUTS[-1:]):
                with self.subTest(flags=flags, layout=layout):
                    self.expect_steps(self.steps(f"layout-{form}-{number}", *flags, *layout, ranks=ranks), alone)
        packed = ["--packing", "--padding_free", "--gradient_accumulation_steps", "1"]
        for number, (ranks, layout) in enumerate([(None, []), (2, ["--cp_size", "2"])]):
            with self.subTest(packed=layout):
                steps = self.steps(f"packed-{number}", *FORMS[2], *packed, *layout, ranks=ranks)
                self.expect_steps(steps, alone)

    def test_evaluation_is_of_the_data_and_a_plan_needs_no_scores(self):
        student, labels = self.logits(MODEL)
        data = torch.nn.functional.cross_entropy(student, labels).item()
        self.steps("evaluated", "--eval_on_start", "--eval_dataset_name", self.file, "--max_steps", "1")
        evaluated = [line for line in read_metrics(self.path("evaluated")) if "eval_loss" in line]
        self.assertAlmostEqual(evaluated[0]["eval_loss"], data, delta=1e-5 * data)
        plan = run("plan", "--model_name_or_path", MODEL, *COMMON, "--profile", "zero3", "--teacher_scores", self.path("nowhere"))
        self.expect(plan, 0)

    def test_with_adapters_and_experts(self):
        lora = ["--use_peft", "--lora_r", "4", *FORMS[0]]
        self.expect_steps(self.steps("lora-2", *lora, *LAYOUTS[1][1], ranks=2), self.steps("lora", *lora))
        model = self.make_model("experts", EXPERTS)
        flags = ["--profile", "zero2", "--ep_size", "2", "--per_device_train_batch_size", "8"]
        self.expect_steps(self.steps("experts-2", *FORMS[2], *flags, ranks=2, model=model), self.steps("experts-1", *FORMS[2], model=model))

    def test_a_killed_run_goes_on_in_another_layout(self):
        self.expect_to_go_on(LAYOUTS[3], LAYOUTS[0], *FORMS[2])

    def test_scores_of_a_document_reach_no_other(self):
        losses = [{document["rows_of_dataset"][0]: (document["loss"], document["targets"]) for document in documents}
                  for documents in self.losses_of_documents(self.rows[4]["input_ids"])]
        changed = [place for place in losses[0] if losses[0][place] != losses[1][place]]
        self.assertEqual([place.rsplit(":", 1)[1] for place in changed], ["5"])
        self.assertEqual(len(losses[0]), ROWS)

    def test_what_is_refused(self):
        def refuse(code, says, *flags, scores="scores"):
            self.expect(self.train("refused", *flags, scores=scores), code, *says)

        other = self.write("other.jsonl", [*self.rows[:3], {"input_ids": [5, 6, 7]}, {"input_ids": []}])
        first = self.write("first.jsonl", [*self.rows[:3], {"input_ids": []}])
        self.expect(self.score("other", data=other), 0)
        refuse(65, ["teacher_scores", f"has no scores of {self.file}:4", "score this dataset with the tokenizer"], scores="other")
        self.assertEqual(self.train("part", "--dataset_name", first, scores="other").returncode, 0)
        refuse(65, ["the scores in part-00000-of-00003.parquet are of temperature 2, and the run has temperature = 1"], scores="warm")
        refuse(65, ["a token has 8 scores, and loss_top_k = 9"], "--loss_top_k", "9")
        refuse(66, ["teacher_scores = " + self.path("nowhere") + ": cannot be read", "name the folder that"], scores="nowhere")
        os.makedirs(self.path("empty"))
        refuse(65, ["holds no .parquet file of scores; score this dataset"], scores="empty")
        shutil.copytree(self.path("scores"), self.path("torn"))
        os.remove(os.path.join(self.path("torn"), "part-00001-of-00003.parquet"))
        refuse(65, ["has 2 files, and part-00002-of-00003.parquet is one of 00003"], scores="torn")

        def with_token(row):
            row["top_ids"] = [[512, *ids[1:]] if ids else [] for ids in row["top_ids"]]

        def above_one(row):
            row["top_logprobs"] = [[1.0 for _ in values] for values in row["top_logprobs"]]

        def twice(row):
            row["top_ids"] = [[ids[0], *ids[:-1]] if ids else [] for ids in row["top_ids"]]

        def fewer(row):
            row["top_ids"], row["top_logprobs"] = ([one[:i % 3] for i, one in enumerate(row[key])] for key in ("top_ids", "top_logprobs"))

        for change, says in ((with_token, "hold the token 512, and the model's vocabulary has only 512"), (twice, "its top_ids are not different tokens"),
                             (above_one, "its top_logprobs are no logarithms of probabilities"), (fewer, "scores, and others have")):
            with self.subTest(change=change.__name__):
                refuse(65, ["teacher_scores", says], scores=self.changed_scores(change.__name__, change))
        self.expect(self.score("none", "--top_k", "0"), 0)
        refuse(65, ["has no column top_ids; `trainer score --top_k N` writes it"], scores="none")
        for flags in (["--loss_type", "eaft"], ["--label_smoothing_factor", "0.1"], ["--packing", "--packing_strategy", "wrapped"]):
            refuse(78, ["teacher_scores", flags[-2].lstrip("-") if flags[-2] != "--packing_strategy" else "packing_strategy"], *flags)
        alone = run("train", "--model_name_or_path", MODEL, "--dataset_name", self.file, "--beta", "0.5", "--temperature", "2")
        self.expect(alone, 78, "beta", "temperature", "teacher_scores")


if __name__ == "__main__":
    unittest.main()

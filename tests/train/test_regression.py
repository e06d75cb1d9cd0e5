"""A number for each document: the numbers of transformers' Trainer with one label, in every layout, and what is refused."""

import unittest

import test_score_heads as heads  # also sets variables; by its own name, so that its tests are not run here
from test_preferences import BATCH, PAIRS, as_flags

import torch
from transformers import Trainer


def with_numbers(rows):
    """The rows with numbers in place of classes; whole ones, negative ones and zeros among them."""
    return [{**row, "label": number if number % 5 == 0 else (number % 7 - 3) / 4} for number, row in enumerate(rows)]


class Numbers(heads.Classes):
    SHARES = ()

    @classmethod
    def prepare(cls):
        cls.rows = with_numbers(heads.random_texts(PAIRS, 4))
        cls.file = cls.write("numbers.jsonl", cls.rows)
        cls.model = cls.save_model("numbers", 1)

    def train(self, name, *flags, **options):
        return super().train(name, "--num_labels", "1", *flags, **options)

    def expected(self, model, rows, tokenizer, max_length=48):
        scores = self.scores(model, self.documents(rows, tokenizer, max_length))[:, 0]
        return {"loss": (scores - torch.tensor([row["label"] for row in rows])).square().mean().item()}

    def expect_evaluation(self, line, expected):
        self.assertAlmostEqual(line["eval_loss"], expected["loss"], delta=2e-5 * max(1, expected["loss"]))
        self.assertFalse({"eval_accuracy", "eval_entropy", "eval_mean_token_accuracy"} & set(line))

    def live(self, trainer_type, *more, **settings):
        class Regressor(Trainer):
            loss_is_scaled_for_ga = heads.Classifier.loss_is_scaled_for_ga

        return super().live(Regressor, *more, **settings)

    def transformers(self, folder, rows, *more, **settings):
        return super().transformers(folder, [{**row, "label": float(row["label"])} for row in rows], *more, **settings)


class Traces(Numbers):
    def test_traces_are_those_of_transformers(self):
        conversations = [heads.as_conversation(row) for row in self.rows]
        for name, rows, settings in (("texts", self.rows, {"max_steps": 20}),
                                     ("accumulated", self.rows, {"max_steps": 4, "gradient_accumulation_steps": 3}),
                                     ("conversations", conversations, {"max_steps": 5})):
            with self.subTest(rows=name):
                settings = {"per_device_train_batch_size": BATCH, "max_length": heads.LENGTH, **settings}
                ours = self.steps(name, *as_flags(settings), data=self.write(name + ".jsonl", rows))
                theirs = self.transformers(self.model, rows, **settings)
                for a, b in zip(ours, theirs, strict=True):
                    self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4 * max(1, abs(b["loss"])), msg=a["step"])
                    self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * b["grad_norm"], msg=a["step"])
                    self.assertFalse({"accuracy", "entropy", "mean_token_accuracy"} & set(a))
        config = self.load(self.path("texts")).config
        self.assertEqual((config.num_labels, config.problem_type), (1, "regression"))

    def test_evaluation(self):
        self.expect_evaluations(with_numbers(heads.random_texts(11, 8)), "loss")


class Layouts(Numbers, heads.ClassLayouts):
    NEW, labels = [], 1


class BadInput(Numbers):
    def test_labels_and_settings(self):
        row = self.rows[0]
        for label in ("good", "1.5", None, True, [1]):
            with self.subTest(label=label):
                bad = self.write("bad.jsonl", [row, {**row, "label": label}, row])
                self.expect(self.train("refused", data=bad), 65, "bad.jsonl:2", "label")
        self.expect(self.train("refused", "--class_names", "quality"), 78, "class_names")
        self.expect(self.train("refused", "--metric_for_best_model", "accuracy", "--eval_dataset_name", self.file, "--eval_strategy",
                               "steps", "--load_best_model_at_end", "true"), 78, "metric_for_best_model")


if __name__ == "__main__":
    unittest.main()

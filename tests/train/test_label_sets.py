"""Several labels of a document: the numbers of transformers' Trainer, in every layout, and what is refused."""

import json
import os
import unittest

import test_score_heads as heads  # also sets variables; by its own name, so that its tests are not run here
from test_preferences import BATCH, PAIRS, as_flags

import torch

COUNT = 5
NAMES = ["red", "green", "blue", "old", "new"]
SEVERAL = ["--problem_type", "multi_label_classification"]


def with_sets(rows):
    """The rows with a list of labels in place of a class: none, one, several or all."""
    return [{**row, "label": [label for label in range(COUNT) if (number + 1) * 7 >> label & 1]} for number, row in enumerate(rows)]


def answers(labels):
    return [float(label in labels) for label in range(COUNT)]


class SetsClassifier(heads.Classifier):
    """transformers' own, which logs the accuracy too: of documents that have the right labels and no other."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = heads.Trainer.compute_loss(self, model, inputs, True, num_items_in_batch)
        self.right = [*self.right, *((outputs.logits > 0) == (inputs["labels"] > 0)).all(-1).tolist()]
        return (loss, outputs) if return_outputs else loss


class Sets(heads.Classes):
    SHARES = ("accuracy",)

    @classmethod
    def prepare(cls):
        cls.rows = with_sets(heads.random_texts(PAIRS, 4))
        cls.file = cls.write("sets.jsonl", cls.rows)
        cls.model = cls.save_model("sets", COUNT)

    def train(self, name, *flags, **options):
        return super().train(name, *SEVERAL, "--num_labels", str(COUNT), *flags, **options)

    def expected(self, model, rows, tokenizer, max_length=48):
        scores = self.scores(model, self.documents(rows, tokenizer, max_length))
        wanted = torch.tensor([answers(row["label"]) for row in rows])
        return {"loss": torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted.double()).item(),
                "accuracy": ((scores > 0) == (wanted > 0)).all(-1).double().mean().item()}

    def live(self, trainer_type, model, *more, **settings):
        model.config.problem_type = "multi_label_classification"
        return super().live(SetsClassifier, model, *more, **settings)

    def transformers(self, folder, rows, *more, **settings):
        return super().transformers(folder, [{**row, "label": answers(row["label"])} for row in rows], *more, **settings)


class Traces(Sets):
    def test_traces_are_those_of_transformers(self):
        named = [{**row, "label": [NAMES[label] for label in row["label"]]} for row in self.rows]
        answered = [{**row, "label": answers(row["label"])} for row in self.rows]
        for name, rows, flags, settings in (("numbers", self.rows, [], {"max_steps": 20}),
                                            ("names", named, ["--class_names", *NAMES], {"max_steps": 4, "gradient_accumulation_steps": 3}),
                                            ("answers", answered, [], {"max_steps": 3})):
            with self.subTest(labels=name):
                settings = {"per_device_train_batch_size": BATCH, "max_length": heads.LENGTH, **settings}
                ours = self.steps(name, *flags, *as_flags(settings), data=self.write(name + ".jsonl", rows))
                theirs = self.transformers(self.model, self.rows, **settings)
                for a, b in zip(ours, theirs, strict=True):
                    self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4, msg=a["step"])
                    self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * b["grad_norm"], msg=a["step"])
                    self.assertAlmostEqual(a["accuracy"], b["accuracy"], delta=1e-6, msg=a["step"])
                    self.assertFalse({"entropy", "mean_token_accuracy"} & set(a))
        config = self.load(self.path("names")).config
        self.assertEqual((config.problem_type, list(config.id2label.values())), ("multi_label_classification", NAMES))

    def test_weights_of_rows(self):
        """A row without weight changes nothing, and one of twice the weight counts as two."""
        flags = ["--per_device_train_batch_size", str(PAIRS), "--max_steps", "1", "--shuffle_dataset", "false"]
        weighted = [{**row, "weight": (0, 1, 2)[number % 3]} for number, row in enumerate(self.rows)]
        repeated = [row for number, row in enumerate(self.rows) for _ in range(number % 3)]
        a, = self.steps("weighted", *flags, data=self.write("weighted.jsonl", weighted))
        flags[1] = str(len(repeated))
        b, = self.steps("repeated", *flags, data=self.write("repeated.jsonl", repeated))
        for key in ("loss", "grad_norm"):
            self.assertAlmostEqual(a[key], b[key], delta=2e-6 * abs(b[key]), msg=key)

    def test_labels_are_no_tokens(self):
        """The labels of a document are bits of a number, which may be above all tokens."""
        rows = [{**row, "label": [number, 30]} for number, row in enumerate(self.rows[:4])]
        self.expect(self.train("many", "--num_labels", "31", "--max_steps", "1", model=self.save_model("of-tokens"),
                               data=self.write("many.jsonl", rows)), 0)

    def test_labels_of_another_name(self):
        flags = ["--per_device_train_batch_size", "2", "--max_steps", "1", "--shuffle_dataset", "false"]
        renamed = [{"text": row["text"], "tags": row["label"]} for row in self.rows]
        a, = self.steps("renamed", *flags, "--column_map", '{"label": "tags"}', data=self.write("renamed.jsonl", renamed))
        b, = self.steps("own", *flags, data=self.file)
        self.assertEqual(a["loss"], b["loss"])

    def test_evaluation(self):
        self.expect_evaluations(with_sets(heads.random_texts(11, 8)), "accuracy")


class Layouts(Sets, heads.ClassLayouts):
    NEW, labels = [], COUNT


class BadInput(Sets):
    def test_labels(self):
        row = self.rows[0]
        for label, word in ((1, "a list of labels is needed"), ("red", "a list"), ([COUNT], "one of 0 to 4"), (["red"], "class_names"),
                            ([1, 1], "names 1 twice"), ([1.0], "label has 1 numbers"), ([0.5] * COUNT, "0.0 and 1.0 say")):
            with self.subTest(label=label):
                bad = self.write("bad.jsonl", [row, {**row, "label": label}, row])
                self.expect(self.train("refused", data=bad), 65, "bad.jsonl:2", word)

    def test_settings(self):
        for flags, word in ((["--num_labels", "32"], "at most 31"), (["--problem_type", "regression"], "num_labels 1"),
                            (["--problem_type", "single_label_classification", "--num_labels", "1"], "two or more")):
            with self.subTest(flags=flags):
                self.expect(self.train("refused", *flags), 78, word)
        self.expect(self.train("refused", command="train"), 78, "problem_type")

    def test_a_model_of_too_many_labels(self):
        many = self.save_model("many", 32)
        self.expect(super(Sets, self).train("refused", *SEVERAL, model=many), 78, "problem_type", "names 32 labels", "at most 31")

    def test_a_model_of_several_labels(self):
        """It is not taken for one of a single label."""
        with open(os.path.join(self.model, "config.json")) as file:
            config = json.load(file)
        with open(os.path.join(self.model, "config.json"), "w") as file:
            json.dump({**config, "problem_type": "multi_label_classification"}, file)
        one = self.write("one.jsonl", heads.random_texts(PAIRS, 4))
        alone = super(Sets, self).train
        self.expect(alone("alone", data=one), 78, "problem_type: the model's config.json says multi_label_classification")
        self.expect(alone("alone", "--problem_type", "single_label_classification", data=one), 0)


if __name__ == "__main__":
    unittest.main()

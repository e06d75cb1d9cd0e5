"""Embeddings of texts that belong together: the numbers of sentence-transformers, in every layout, and what is refused."""

import json
import os
import shutil
import unittest

from scored_rows import COMMON, MODEL, STEPS, ScoredRows, read_metrics, read_steps, run
from test_preferences import EXPERTS, LAYOUTS, PAIRS, random_pairs  # also sets variables
from trainer import some_of

import torch
from datasets import Dataset
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import AutoModel, AutoTokenizer, PrinterCallback

LENGTH = 48
# Pooling, negatives of each row, temperature.
TRACES = [("lasttoken", 0, 0.05), ("mean", 1, 0.05), ("cls", 1, 0.2)]
SHORT_TRACES = [("mean", 0, 0.05), ("lasttoken", 1, 1.0), ("mean", 1, 0.02)]


def random_texts(count, seed, negatives=0):
    rows = [{"anchor": row["prompt"], "positive": row["chosen"].strip(), "negative": row["rejected"].strip()}
            for row in random_pairs(count, seed)]
    return rows if negatives else [{key: row[key] for key in ("anchor", "positive")} for row in rows]


class Texts(ScoredRows):
    KEYS = ("loss", "grad_norm", "accuracy")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = random_texts(PAIRS, 3, negatives=1)
        cls.file = cls.write("texts.jsonl", cls.rows)
        cls.tokenizer = AutoTokenizer.from_pretrained(MODEL)
        # With a chat template sentence-transformers would make a conversation of each text.
        cls.without_template = shutil.copytree(MODEL, cls.path("without-template"))
        os.remove(os.path.join(cls.without_template, "chat_template.jinja"))

    def train(self, name, *flags, ranks=None, model=MODEL, data=None, command="embed", **variables):
        return run(command, "--model_name_or_path", model, "--dataset_name", data or self.file, *COMMON, "--per_device_train_batch_size",
                   str(PAIRS), "--data_cache_dir", self.path("cache"), "--output_dir", self.path(name), *flags, ranks=ranks, **variables)

    def sentence_transformer(self, folder, pooling):
        transformer = Transformer(folder, model_kwargs={"dtype": torch.float32}, max_seq_length=LENGTH)
        return SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension(), pooling), Normalize()], device="cpu")

    def reference(self, rows, pooling, temperature, steps):
        """What SentenceTransformerTrainer logs: a step has all rows."""
        model = self.sentence_transformer(self.without_template, pooling)
        trainer = SentenceTransformerTrainer(
            model=model, train_dataset=Dataset.from_list(rows), loss=MultipleNegativesRankingLoss(model, scale=1 / temperature),
            args=SentenceTransformerTrainingArguments(
                output_dir=self.path("reference"), use_cpu=True, report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True,
                per_device_train_batch_size=PAIRS, max_steps=steps, learning_rate=0.002, seed=42, dataloader_pin_memory=False))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return [line for line in trainer.state.log_history if "loss" in line]

    def embeddings(self, model, texts, pooling):
        """By transformers alone, each text by itself."""
        found = []
        with torch.no_grad():
            for text in texts:
                ids = self.tokenizer(text)["input_ids"][:LENGTH]
                rows = model(torch.tensor([ids])).last_hidden_state[0].double()
                found.append({"lasttoken": rows[-1], "cls": rows[0], "mean": rows.mean(0)}[pooling])
        return torch.nn.functional.normalize(torch.stack(found), dim=1)

    def expected(self, folder, rows, pooling, temperature=0.05):
        model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        anchors = self.embeddings(model, [row["anchor"] for row in rows], pooling)
        others = [row["negative"] for row in rows if isinstance(row.get("negative"), str)]
        others += [text for row in rows if isinstance(row.get("negative"), list) for text in row["negative"]]
        texts = self.embeddings(model, [row["positive"] for row in rows] + others, pooling)
        scores = anchors @ texts.T / temperature
        own = torch.arange(len(rows))
        return {"loss": torch.nn.functional.cross_entropy(scores, own).item(), "accuracy": (scores.argmax(1) == own).double().mean().item()}


class Traces(Texts):
    def test_traces_are_those_of_sentence_transformers(self):
        for count, traces in ((20, TRACES), (5, some_of(SHORT_TRACES))):
            for pooling, negatives, temperature in traces:
                with self.subTest(pooling=pooling, negatives=negatives, temperature=temperature):
                    rows = random_texts(PAIRS, 3, negatives)
                    name = f"trace-{count}-{pooling}-{negatives}"
                    ours = self.steps(name, "--max_steps", str(count), "--pooling", pooling, "--temperature", str(temperature),
                                      data=self.write(name + ".jsonl", rows))
                    for a, b in zip(ours, self.reference(rows, pooling, temperature, count), strict=True):
                        self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4 * max(1, b["loss"]), msg=a["step"])
                        self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * b["grad_norm"], msg=a["step"])
                        self.assertFalse({"entropy", "mean_token_accuracy"} & set(a))
                    self.assertLess(ours[-1]["loss"], ours[0]["loss"])

    def test_evaluation_and_what_is_exported(self):
        """Anchors are compared with all texts of the set; sentence-transformers gives the same embeddings."""
        others = random_texts(11, 8, negatives=1)
        for number, row in enumerate(others):  # none, one or several
            row["negative"] = [None, row["negative"], [row["negative"], row["positive"] + " too"]][number % 3]
        flags = ["--eval_on_start", "--eval_dataset_name", self.write("others.jsonl", others), "--eval_strategy", "steps", "--eval_steps",
                 str(STEPS), "--per_device_eval_batch_size", "4"]
        for number, (pooling, (ranks, layout)) in enumerate([("mean", LAYOUTS[0]), ("lasttoken", LAYOUTS[3]), ("cls", (None, []))]):
            with self.subTest(pooling=pooling, layout=layout):
                name = f"evaluated-{number}"
                self.steps(name, "--pooling", pooling, *flags, *layout, ranks=ranks)
                lines = [line for line in read_metrics(self.path(name)) if "eval_loss" in line]
                for line, folder in zip(lines, (MODEL, self.path(name)), strict=True):
                    for key, value in self.expected(folder, others, pooling).items():
                        if (key, pooling) == ("accuracy", "cls"):
                            continue  # texts that begin with one token are equally near
                        self.assertAlmostEqual(line["eval_" + key], value, delta=2e-5 * max(1, value), msg=key)
                loaded = SentenceTransformer(self.path(name), device="cpu", model_kwargs={"dtype": torch.float32})
                loaded.max_seq_length = LENGTH
                texts = [row["anchor"] for row in others]
                plain = self.embeddings(AutoModel.from_pretrained(self.path(name), dtype=torch.float32), texts, pooling)
                found = torch.tensor(loaded.encode(texts), dtype=torch.double)
                self.assertLess((found - plain).abs().max().item(), 1e-5)
                self.expect(run("export", self.path(name), "--output_dir", self.path(name + "-again")), 0)
                for file in ("modules.json", "1_Pooling/config.json"):
                    self.assertTrue(os.path.exists(self.path(name + "-again", file)), file)

    def test_the_pooling_of_a_folder(self):
        """That of sentence-transformers' folder counts, and a setting before it."""
        folder = shutil.copytree(MODEL, self.path("pooled"))
        os.makedirs(os.path.join(folder, "1_Pooling"))
        for content in ({"pooling_mode": "mean"}, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}):
            with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as file:
                json.dump(content, file)
            name = "of-folder-" + str(len(content))
            step, = self.steps(name, "--max_steps", "1", model=folder)
            self.assertAlmostEqual(step["loss"], self.expected(MODEL, self.rows, "mean")["loss"], delta=1e-5)
            with open(self.path(name, "1_Pooling", "config.json")) as file:
                self.assertTrue(json.load(file)["pooling_mode_mean_tokens"])
        step, = self.steps("of-setting", "--max_steps", "1", "--pooling", "cls", model=folder)
        self.assertAlmostEqual(step["loss"], self.expected(MODEL, self.rows, "cls")["loss"], delta=1e-5)
        with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as file:
            json.dump({"pooling_mode": "max"}, file)
        self.expect(self.train("refused", model=folder), 78, "max", "pooling")
        with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as file:
            json.dump([1, 2], file)
        self.expect(self.train("refused", model=folder), 78, "none", "pooling")


class Layouts(Texts):
    def test_every_layout(self):
        for form, flags in enumerate([[], ["--pooling", "mean"]]):
            alone = self.steps(f"alone-{form}", *flags)
            self.assertLess(alone[-1]["loss"], alone[0]["loss"])
            for number, (ranks, layout) in enumerate(LAYOUTS if form == 0 else [LAYOUTS[3], LAYOUTS[4]]):
                with self.subTest(flags=flags, layout=layout):
                    self.expect_steps(self.steps(f"layout-{form}-{number}", *flags, *layout, ranks=ranks), alone)

    def test_rows_with_any_number_of_negatives(self):
        rows = [{**row, "negative": [None, [], row["negative"], [row["negative"], row["anchor"]]][number % 4]}
                for number, row in enumerate(self.rows)]
        file = self.write("mixed.jsonl", rows)
        alone = self.steps("mixed", data=file)
        self.assertAlmostEqual(alone[0]["loss"], self.expected(MODEL, rows, "lasttoken")["loss"], delta=1e-5)
        self.expect_steps(self.steps("mixed-2", *LAYOUTS[3][1], ranks=4, data=file), alone)

    def test_adapters_and_experts(self):
        lora = ["--use_peft", "--lora_r", "4", "--lora_dropout", "0", "--learning_rate", "0.02"]
        alone = self.steps("lora", *lora)
        self.assertLess(alone[-1]["loss"], alone[0]["loss"])
        self.expect_steps(self.steps("lora-2", *lora, *LAYOUTS[1][1], ranks=2), alone)
        model = self.make_model("experts", EXPERTS)
        flags = ["--profile", "zero2", "--ep_size", "2", "--per_device_train_batch_size", "12"]
        self.expect_steps(self.steps("experts-2", *flags, ranks=2, model=model), self.steps("experts-1", model=model))
        # The head, which is not tied here, has no part in an embedding.
        before, after = (load_file(os.path.join(folder, "model.safetensors"))["lm_head.weight"] for folder in (model, self.path("experts-1")))
        self.assertTrue(torch.equal(before, after))

    def test_a_killed_run_goes_on_in_another_layout(self):
        self.expect_to_go_on(LAYOUTS[3], LAYOUTS[0])

    def test_texts_do_not_leak(self):
        """On a small model: another text moves 0 numbers of others."""
        shown = run("prove", "--method", "embedding", "--model_name_or_path", MODEL, "--dataset_name", self.file, *COMMON,
                    "--per_device_train_batch_size", "2", *LAYOUTS[3][1][:6], "--output_dir", self.path("proof"), ranks=4)
        self.expect(shown, 0, "holds   fp32, after 3 steps: 0 of", stream="stdout")


class BadInput(Texts):
    def refuse(self, code, says, *flags, rows=None, **options):
        with self.subTest(flags=flags, says=says):
            self.expect(self.train("refused", *flags, data=rows and self.write("bad.jsonl", rows), **options), code, *says)

    def test_rows(self):
        full = self.rows[0]
        for column in ("anchor", "positive"):
            less = {key: value for key, value in full.items() if key != column}
            self.refuse(65, [column], rows=[less] * 3)
            self.refuse(65, [column, "bad.jsonl:2"], rows=[full, less, full])
        for negative in (3, [3], {"text": "no"}):
            self.refuse(65, ["negative"], rows=[full, {**full, "negative": negative}])

    def test_settings(self):
        self.refuse(78, ["pooling"], "--pooling", "max")
        self.refuse(78, ["pooling"], "--pooling", "mean", command="sft")
        self.refuse(78, ["packing"], "--packing")
        self.refuse(78, ["temperature"], "--temperature", "0")
        self.refuse(78, ["loss_type"], "--loss_type", "dft")
        one = ("--per_device_train_batch_size", "1")
        alone = [{"anchor": row["anchor"], "positive": row["positive"]} for row in self.rows]
        self.refuse(78, ["per_device_train_batch_size = 1", "a step has one row, whose texts are compared with those of other rows"], *one, rows=alone)
        self.refuse(0, [], *one, "--max_steps", "1", rows=[{**row, "negative": "no"} for row in alone])

    def test_other_commands(self):
        """`init` takes the files of a folder along, and scores are of tokens."""
        folder = shutil.copytree(MODEL, self.path("with-pooling"))
        os.makedirs(os.path.join(folder, "1_Pooling"))
        with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as file:
            json.dump({"pooling_mode": "mean"}, file)
        self.expect(run("init", "--config_json", os.path.join(folder, "config.json"), "--output_dir", self.path("made")), 0)
        self.assertTrue(os.path.exists(self.path("made", "1_Pooling", "config.json")))
        self.refuse(78, ["score writes log-probabilities of tokens"], "--method", "embedding", command="score")

    def test_defaults(self):
        common = ["--model_name_or_path", MODEL, "--dataset_name", self.file, "--bf16", "false", "--max_length", "48", "--logging_steps", "1",
                  "--max_steps", "2", "--data_cache_dir", self.path("cache")]
        spelled = ["--pooling", "lasttoken", "--temperature", "0.05", "--learning_rate", "5e-5"]
        self.expect(run("train", "--method", "embedding", *common, "--output_dir", self.path("plain")), 0)
        self.expect(run("embed", *common, *spelled, "--output_dir", self.path("spelled")), 0)
        for a, b in zip(*(read_steps(self.path(name)) for name in ("plain", "spelled")), strict=True):
            for key in (*self.KEYS, "learning_rate"):
                self.assertEqual(a[key], b[key], key)


if __name__ == "__main__":
    unittest.main()

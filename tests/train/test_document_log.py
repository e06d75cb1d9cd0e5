"""Documents of a step: their losses, targets and shares of the gradient in every layout, and the rows of the dataset that they are."""

import json
import os
import shutil
import sys
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import FolderTest, read_steps, run, some_of  # noqa: E402

MODEL = os.path.join(FOLDER, "..", "parity", "data", "models", "qwen2-tiny")
EXPERTS = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 32,
           "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
           "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": True,
           "max_position_embeddings": 256, "tie_word_embeddings": False, "initializer_range": 0.1}
ROWS = 8
BLANK, BAD = 3, 6  # lines of the file that are no rows
COMMON = ["--bf16", "false", "--max_length", "512", "--logging_steps", "1", "--skip_bad_rows", "1",
          "--train_sampling_strategy", "sequential", "--document_log", "all"]
# Ranks, flags: a step has all rows.
LAYOUTS = [(None, ["--per_device_train_batch_size", "8"]),
           (None, ["--per_device_train_batch_size", "1", "--packing"]),
           (None, ["--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "4"]),
           (2, ["--per_device_train_batch_size", "8", "--cp_size", "2"]),
           (2, ["--per_device_train_batch_size", "1", "--sp_size", "2", "--packing"]),
           (2, ["--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2", "--profile", "zero3"]),
           (2, ["--per_device_train_batch_size", "4", "--profile", "zero2"]),
           (4, ["--per_device_train_batch_size", "8", "--cp_size", "2", "--sp_size", "2", "--profile", "zero3"]),
           (4, ["--per_device_train_batch_size", "1", "--cp_size", "4", "--packing", "--profile", "zero1"])]


class DocumentLog(FolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.path("rows.jsonl")
        cls.lines = {}  # words by line
        number = 0
        with open(cls.data, "w") as file:
            for line in range(1, ROWS + 3):
                if line == BLANK:
                    file.write("\n")
                elif line == BAD:
                    file.write('{"text": 5}\n')
                else:
                    number += 1
                    words = [f"{chr(97 + (5 * word + number) % 26)}{word}" for word in range(2 + 3 * number)]
                    cls.lines[line] = " ".join(words)
                    file.write(json.dumps({"text": cls.lines[line]}) + "\n")
        cls.alone = cls.documents_alone("alone")

    @classmethod
    def train(cls, output, *flags, ranks=None, model=MODEL, **variables):
        return run("train", "--model_name_or_path", model, "--dataset_name", cls.data, *COMMON, *flags,
                   "--output_dir", cls.path(output), ranks=ranks, **variables)

    @classmethod
    def documents_alone(cls, output, *flags, model=MODEL):
        """The documents of a run with one of them in each step, and weights that stay as they are."""
        result = cls.train(output, "--per_device_train_batch_size", "1", "--learning_rate", "0", "--max_steps", str(ROWS), *flags, model=model)
        assert result.returncode == 0, result.stderr
        found = {}
        for step in range(1, ROWS + 1):
            for document in cls.inspect(output, step):
                found[document["rows_of_dataset"][0]] = document
        assert len(found) == ROWS, found
        return found

    @classmethod
    def inspect(cls, output, step):
        result = run("inspect", cls.path(output), "--step", str(step), "--json")
        assert result.returncode == 0 and not result.stderr, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    def expect_documents_of(self, alone, output, step=1):
        documents = self.inspect(output, step)
        self.assertEqual(sorted(place for document in documents for place in document["rows_of_dataset"]), sorted(alone))
        self.assertAlmostEqual(sum(document["share"] for document in documents), 1, delta=1e-6)
        shares = [document["share"] for document in documents]
        self.assertEqual(shares, sorted(shares, reverse=True))
        for document in documents:
            one = alone[document["rows_of_dataset"][0]]
            self.assertEqual(document["targets"], one["targets"], document)
            self.assertLessEqual(abs(document["loss"] - one["loss"]), 1e-6 * one["loss"], document)
        return documents

    def test_sums_are_those_of_each_document_alone(self):
        shares = {}
        for number, (ranks, flags) in enumerate(some_of(LAYOUTS)):
            with self.subTest(flags=flags, ranks=ranks):
                self.expect(self.train(f"layout-{number}", *flags, "--max_steps", "1", ranks=ranks), 0)
                documents = self.expect_documents_of(self.alone, f"layout-{number}")
                loss = sum(document["loss"] for document in documents) / sum(document["targets"] for document in documents)
                step, = read_steps(self.path(f"layout-{number}"))
                self.assertAlmostEqual(loss, step["loss"], delta=1e-5)
                for document in documents:
                    share = shares.setdefault(document["rows_of_dataset"][0], document["share"])
                    self.assertAlmostEqual(document["share"], share, delta=1e-5 * share)

    def test_with_adapters(self):
        self.expect(self.train("adapter", "--use_peft", "--lora_r", "2", "--per_device_train_batch_size", "4", "--max_steps", "1", ranks=2), 0)
        self.expect_documents_of(self.alone, "adapter")

    def test_with_experts(self):
        config, model = self.path("config.json"), self.path("model")
        with open(config, "w") as file:
            json.dump(EXPERTS, file)
        self.expect(run("init", "--config_json", config, "--output_dir", model), 0)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(MODEL, file), model)
        alone = self.documents_alone("experts-alone", model=model)
        self.expect(self.train("experts", "--per_device_train_batch_size", "4", "--ep_size", "2", "--profile", "zero2", "--max_steps", "1",
                               ranks=2, model=model), 0)
        self.expect_documents_of(alone, "experts")

    def test_places_are_lines_of_the_file(self):
        self.assertEqual(sorted(self.alone), sorted(f"{self.data}:{line}" for line in self.lines))
        by_line = [self.alone[f"{self.data}:{line}"]["targets"] for line in sorted(self.lines)]
        self.assertEqual(by_line, sorted(by_line))  # each row is longer than the one before it
        self.assertEqual(len(set(by_line)), ROWS)
        # Two rows may be one document: each is named.
        self.expect(self.train("wrapped", "--packing", "--packing_strategy", "wrapped",
                               "--max_length", "32", "--per_device_train_batch_size", "16", "--max_steps", "1"), 0)
        named = [place for document in self.inspect("wrapped", 1) for place in document["rows_of_dataset"]]
        self.assertEqual(sorted(set(named)), sorted(self.alone))
        # The prepared rows do not say where they come from at any number of ranks: the file has the same bytes.
        caches = []
        for ranks in (None, 3):
            cache = self.path(f"cache-{ranks}")
            self.expect(self.train(f"cached-{ranks}", "--data_cache_dir", cache, "--max_steps", "1", ranks=ranks), 0)
            names = sorted(name for name in os.listdir(cache) if name.startswith("tokens-") and "." not in name)
            with open(os.path.join(cache, names[0]), "rb") as file:
                caches.append(file.read())
        self.assertEqual(caches[0], caches[1])
        shutil.rmtree(self.path("cache-None"))
        result = run("inspect", self.path("cached-None"), "--step", "1")
        self.expect(result, 0, "warning: the rows of the dataset are not named", "trainer prepare")

    def test_places_are_no_content(self):
        """A run goes on with a file whose rows stand on other lines: its tokens are the same."""
        rows = self.path("moved.jsonl")
        shutil.copy(self.data, rows)
        flags = ["--dataset_name", rows, "--save_steps", "1", "--max_steps", "2", "--lr_scheduler_type", "constant"]
        self.train("moved", *flags, RINGSHARD_FAULT="save:copy:2:kill")
        with open(rows) as file:
            content = file.read()
        with open(rows, "w") as file:
            file.write("\n" + content)
        self.expect(self.train("moved", *flags), 0, "resuming from")
        first, second = ({place for document in self.inspect("moved", step) for place in document["rows_of_dataset"]} for step in (1, 2))
        self.assertEqual(first, {f"{rows}:{line}" for line in self.lines})
        self.assertEqual(second, {f"{rows}:{line + 1}" for line in self.lines})

    def test_the_log_changes_no_number(self):
        flags = ["--per_device_train_batch_size", "2", "--max_steps", "4", "--learning_rate", "0.01", "--full_determinism"]
        self.expect(self.train("logged", *flags), 0)
        self.expect(self.train("plain", *flags, "--document_log", "off"), 0)
        self.assertFalse(os.path.exists(self.path("plain/documents.jsonl")))
        with open(self.path("logged/model.safetensors"), "rb") as logged, open(self.path("plain/model.safetensors"), "rb") as plain:
            self.assertEqual(logged.read(), plain.read())
        for one, other in zip(read_steps(self.path("logged")), read_steps(self.path("plain"))):
            self.assertEqual((one["loss"], one["grad_norm"]), (other["loss"], other["grad_norm"]))

    def test_a_killed_run_goes_on_in_another_layout(self):
        flags = ["--max_steps", "6", "--save_steps", "2", "--learning_rate", "0.01"]
        self.train("killed", *flags, "--per_device_train_batch_size", "2", "--cp_size", "2", ranks=2, RINGSHARD_FAULT="save:copy:2:kill")
        with open(self.path("killed/documents.jsonl")) as file:
            steps = [json.loads(line)["step"] for line in file]
        self.assertEqual(steps, [1, 2, 3, 4])  # two of them are done again
        with open(self.path("killed/documents.jsonl"), "a") as file:
            file.write('{"step":9,"attempt":1,"spike":null,"lo')  # the host crashed within a line
        self.expect(self.train("killed", *flags, "--per_device_train_batch_size", "1", "--profile", "zero2", ranks=2), 0, "resuming from")
        for step in range(1, 7):
            shown = run("inspect", self.path("killed"), "--step", str(step))
            self.expect(shown, 0, f"step {step} of attempt {1 if step < 3 else 2}: ", "rows.jsonl:", stream="stdout")
            loss = read_steps(self.path("killed"))[step - 1]["loss"]
            documents = self.inspect("killed", step)
            self.assertEqual(len(documents), 2)
            self.assertAlmostEqual(sum(one["loss"] for one in documents) / sum(one["targets"] for one in documents), loss, delta=1e-5)

    def test_steps_that_are_not_logged_are_refused(self):
        self.expect(run("inspect", self.path("alone"), "--step", "812"), 66, "has no documents of step 812: it holds steps between 1 and 8",
                    "--document_log all")
        self.expect(self.train("silent", "--document_log", "off", "--max_steps", "1"), 0)
        self.expect(run("inspect", self.path("silent"), "--step", "1"), 66, "this run logs no documents: train with --document_log all")
        self.expect(run("inspect", self.path("nowhere"), "--step", "1"), 66, "there is no such run")
        self.expect(run("inspect", self.path("alone"), "--step", "x"), 64, "--step N")
        self.expect(run("inspect", self.path("alone"), "--step", "1", "--full"), 64, "--step shows the documents of a step")
        self.expect(self.train("wrong", "--document_log", "some"), 78, "document_log = some")
        result = run("inspect", self.path("alone"), "--step", "1", "--rows", "0")
        self.expect(result, 0, "1 documents with", "1 more; --rows N shows N of them", stream="stdout")

    def test_spikes_are_found(self):
        # One row of the last step is of other words: its loss and gradient stand out from those of steps before.
        rows = self.path("spike.jsonl")
        with open(rows, "w") as file:
            for _ in range(40):
                file.write('{"text": "one two three four five six"}\n')
            file.write('{"text": "one two three four five six"}\n{"text": "Zürich 8347 & \\u4e09\\u767e <<>> qq"}\n')
        self.expect(run("train", "--model_name_or_path", MODEL, "--dataset_name", rows, *COMMON, "--document_log", "spikes",
                        "--per_device_train_batch_size", "1", "--learning_rate", "0.01", "--lr_scheduler_type", "constant",
                        "--max_steps", "21", "--output_dir", self.path("spikes"), ranks=2), 0)
        with open(self.path("spikes/documents.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        self.assertIn(21, [line["step"] for line in lines])
        self.assertTrue(all(line["spike"] for line in lines))
        self.assertLess(len(lines), 5)
        shown = run("inspect", self.path("spikes"), "--step", "21")
        self.expect(shown, 0, "a spike: norm of the gradient", stream="stdout")
        self.assertEqual(self.inspect("spikes", 21)[0]["rows_of_dataset"], [f"{rows}:42"])
        self.expect(run("report", self.path("spikes"), "--output", self.path("report.html")), 0)
        with open(self.path("report.html")) as file:
            page = file.read()
        for words in ("Documents of spikes", lines[-1]["spike"], f"{rows}:42"):
            self.assertIn(words, page)

    def test_a_step_without_finite_numbers_is_logged_before_the_run_ends(self):
        flags = ["--per_device_train_batch_size", "4", "--max_steps", "6", "--learning_rate", "0.01", "--save_steps", "2",
                 "--document_log", "spikes"]
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                output = f"abort-{ranks}"
                self.expect(self.train(output, *flags, ranks=ranks, RINGSHARD_FAULT="weights:3:nan@0"), 76, "step 4: the loss is")
                documents = self.inspect(output, 4)
                self.assertEqual(len(documents), 4 * ranks)
                self.assertTrue(all(document["rows_of_dataset"] for document in documents))
                self.assertIsNone(documents[0]["loss"])
                self.expect(run("inspect", self.path(output), "--step", "4"), 0, "a spike: step 4: the loss is", stream="stdout")

    def test_the_pass_before_a_rewind_is_logged(self):
        flags = ["--per_device_train_batch_size", "4", "--max_steps", "6", "--learning_rate", "0.01", "--save_steps", "2", "--on_nan", "rewind"]
        for log in ("spikes", "all"):
            with self.subTest(log=log):
                self.expect(self.train("rewind-" + log, *flags, "--document_log", log, RINGSHARD_FAULT="weights:3:nan"), 0, "on_nan = rewind")
                shown = run("inspect", self.path("rewind-" + log), "--step", "4")
                if log == "all":  # the second attempt has logged the step
                    self.expect(shown, 0, "step 4 of attempt 2", stream="stdout")
                else:
                    self.expect(shown, 0, "step 4 of attempt 1: loss nan", "a spike: step 4: the loss is", stream="stdout")
                with open(self.path(f"rewind-{log}/documents.jsonl")) as file:
                    self.assertEqual([(line["step"], line["attempt"]) for line in map(json.loads, file) if line.get("is_lost")], [(4, 1)])

    def test_a_run_that_goes_on_finds_the_same_spikes(self):
        rows = self.path("spikes-again.jsonl")
        with open(rows, "w") as file:
            for _ in range(20):
                file.write('{"text": "one two three four five six"}\n')
            file.write('{"text": "Zürich 8347 & \\u4e09\\u767e <<>> qq"}\n')
        flags = ["--model_name_or_path", MODEL, "--dataset_name", rows, *COMMON, "--document_log", "spikes", "--save_steps", "15",
                 "--per_device_train_batch_size", "1", "--learning_rate", "0.01", "--lr_scheduler_type", "constant", "--max_steps", "21",
                 "--full_determinism"]
        spikes = {}
        for output, fault in (("whole", ""), ("cut", "save:copy:2:kill")):
            if fault:
                run("train", *flags, "--output_dir", self.path("spikes-" + output), RINGSHARD_FAULT=fault)
            self.expect(run("train", *flags, "--output_dir", self.path("spikes-" + output)), 0, *["resuming from"] if fault else [])
            with open(self.path(f"spikes-{output}/documents.jsonl")) as file:
                spikes[output] = {line["step"]: line["spike"] for line in map(json.loads, file)}
        self.assertIn(21, spikes["whole"])
        self.assertIn("20 steps before", spikes["whole"][21])
        self.assertEqual(spikes["whole"], spikes["cut"])


if __name__ == "__main__":
    unittest.main()

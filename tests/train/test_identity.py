"""A run goes on as it began, or says what differs: model, data, layout, targets, lines of metrics, and the files around them."""

import json
import os
import re
import resource
import shutil
import signal
import sys
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
sys.path.insert(0, os.path.join(FOLDER, "..", "..", "text", "tests"))
from test_tekken import tekken  # noqa: E402
from trainer import FolderTest, TrainerTest, read_metrics, read_steps, run  # noqa: E402

TINY = os.path.join(FOLDER, "..", "parity", "data", "models", "qwen2-tiny")
COMMON = ["--bf16", "false", "--max_length", "48", "--logging_steps", "1", "--learning_rate", "0.002"]


class Case(FolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.path("model")
        shutil.copytree(TINY, cls.model)
        cls.rows = [{"input_ids": [(7 * row + 3 * token) % 480 + 1 for token in range(3 + row * 5 % 17)]} for row in range(48)]
        cls.data = cls.write_rows("rows", cls.rows)

    @classmethod
    def write_rows(cls, name, rows):
        path = cls.path(name + ".jsonl")
        with open(path, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return path

    def train(self, output, *flags, model=None, data=None, **others):
        return run("train", "--model_name_or_path", model or self.model, "--dataset_name", data or self.data, *COMMON,
                   "--output_dir", self.path(output), *flags, **others)

    def begin(self, output, *flags, saves=1, **others):
        """A run that is killed when the save number `saves` has its name."""
        killed = self.train(output, *flags, RINGSHARD_FAULT=f"save:latest:{saves}:kill", **others)
        self.assertIn(killed.returncode, (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr)

    def copy(self, output):
        name = f"{output}-{self.id()}"
        shutil.copytree(self.path(output), self.path(name))
        return name

    def changed_model(self, name, **fields):
        folder = self.path(name)
        shutil.copytree(self.model, folder)
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({**config, **fields}, file)
        return folder


class Identity(Case):
    STEPS = ["--max_steps", "4", "--save_steps", "2", "--per_device_train_batch_size", "4"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().begin("begun", *cls.STEPS)

    def refuse(self, *words, flags=(), **others):
        output = self.copy("begun")
        self.expect_one_message(self.train(output, *self.STEPS, *flags, **others), 78, "checkpoint-2: was made with other settings",
                                *words, "--allow_changed")
        return output

    def test_another_config_json(self):
        for number, (field, value, then, now) in enumerate([
                ("rope_theta", 99.0, "1e+06", "99"), ("rms_norm_eps", 0.1, "1e-06", "0.1"), ("hidden_act", "gelu", "silu", "gelu")]):
            with self.subTest(field):
                other = self.changed_model(f"other-{field}", **{field: value})
                name = {"rms_norm_eps": "norm_eps"}.get(field, field)
                said = f"the model's {name}: {then} then, {now} now"
                shutil.rmtree(self.path(f"begun-{self.id()}"), ignore_errors=True)
                output = self.refuse(said, model=other)
                if number == 0:
                    self.expect(self.train(output, *self.STEPS, "--allow_changed", model=other), 0, "note: allow_changed = true", said,
                                "resuming from")

    def test_fields_that_change_nothing(self):
        other = self.changed_model("moved", transformers_version="9.9.9", eos_token_id=3)
        self.expect(self.train(self.copy("begun"), *self.STEPS, model=other), 0, "resuming from")

    def test_other_data_of_the_same_size(self):
        turned = self.write_rows("turned", self.rows[::-1])
        self.refuse("the data (hash of tokens and rows)", data=turned)

    def test_the_same_data_elsewhere(self):
        moved = self.write_rows("moved", self.rows)
        self.expect(self.train(self.copy("begun"), *self.STEPS, data=moved), 0, "resuming from")

    def test_another_tokenizer(self):
        other = self.changed_model("other-tokenizer")
        path = os.path.join(other, "tokenizer.json")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text + "\n")
        self.refuse("the tokenizer (hash of its files)", model=other)

    def test_another_template_makes_other_tokens(self):
        """Wherever a folder has its chat template: tokens are kept by what they were made with."""
        rows = self.write_rows("templates", [{"messages": [{"role": "user", "content": f"the {i}"}, {"role": "assistant", "content": "weather"}]}
                                             for i in range(8)])
        model = self.changed_model("of-a-processor")
        with open(os.path.join(model, "chat_template.jinja")) as file:
            template = file.read()
        os.remove(os.path.join(model, "chat_template.jinja"))
        counts = []
        for words in ("", "one more word "):
            with open(os.path.join(model, "chat_template.json"), "w") as file:
                json.dump({"chat_template": words + template}, file)
            said = run("prepare", "--model_name_or_path", model, "--dataset_name", rows, "--max_length", "64",
                       "--data_cache_dir", self.path("templates-cache"))
            self.expect(said, 0)
            counts.append(re.search(r"documents +8, (\d+) tokens", said.stdout + said.stderr)[1])
        self.assertNotEqual(*counts)

    def test_tekken(self):
        """The file and its template are beside the result and part of the run's identity."""
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "head_dim": 4, "vocab_size": 1024, "sliding_window": None, "eos_token_id": 2}
        os.makedirs(self.path("mistral"))
        file = tekken("v13")
        for name, content in (("config.json", sizes | {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}), ("tekken.json", file)):
            with open(self.path("mistral", name), "w") as opened:
                json.dump(content, opened)
        model = self.path("mistral-model")
        self.expect(run("init", "--config_json", self.path("mistral", "config.json"), "--output_dir", model), 0)
        chats = self.write_rows("chats", [{"messages": [{"role": "user", "content": f"the {i}"}, {"role": "assistant", "content": "weather"}]}
                                          for i in range(16)])
        flags = ("--max_steps", "2", "--save_steps", "1", "--assistant_only_loss", "true")
        self.expect(self.train("tekken", *flags, model=model, data=chats), 0, "done: step 2")
        for folder in (self.path("tekken"), self.path("tekken", "checkpoint-1")):
            with open(os.path.join(folder, "tekken.json")) as opened:
                self.assertEqual(json.load(opened), file)
            with open(os.path.join(folder, "chat_template.jinja")) as opened:
                self.assertIn("{%- generation -%}", opened.read())
        shutil.rmtree(self.path("tekken", "checkpoint-2"))
        first, second = file["vocab"][300:302]
        file["vocab"][300:302] = [second | {"rank": 300}, first | {"rank": 301}]
        with open(os.path.join(model, "tekken.json"), "w") as opened:
            json.dump(file, opened)
        self.expect_one_message(self.train("tekken", *flags, model=model, data=chats), 78, "the tokenizer (hash of its files)")
        added = self.train("added", *flags, "--added_tokens", "<new>", "--max_steps", "1", model=model, data=chats)
        self.expect_one_message(added, 78, 'tekken.json cannot hold the added token "<new>"')

    def test_a_complete_run_begins_no_attempt(self):
        output = self.copy("begun")
        self.expect(self.train(output, *self.STEPS), 0, "done: step 4")
        before = sorted(os.listdir(self.path(output)))
        self.expect(self.train(output, *self.STEPS), 0, "step 4 was the last one: this run is complete")
        self.assertEqual(sorted(os.listdir(self.path(output))), before)
        os.remove(self.path(output, "trainer_state.json"))  # as if it had been killed before it wrote that
        self.expect(self.train(output, *self.STEPS), 0, "step 4 was the last one: this run is complete")
        self.assertTrue(os.path.exists(self.path(output, "trainer_state.json")))


class Layout(Case):
    def test_groups_of_lengths(self):
        flags = ["--train_sampling_strategy", "group_by_length", "--max_steps", "6", "--save_steps", "2"]
        self.begin("groups", *flags, "--per_device_train_batch_size", "8")
        self.expect_one_message(
            self.train("groups", *flags, "--profile", "zero3", "--per_device_train_batch_size", "4", ranks=2), 78,
            "the group of train_sampling_strategy group_by_length (per_device_train_batch_size x gradient_accumulation_steps): "
            "8 then, 4 now")
        self.expect(self.train("groups", *flags, "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "2"), 0,
                    "resuming from")

    def test_the_last_batch_is_dropped(self):
        # 10 rows: 4, 4, 2 to a step of four micro-batches of one row; 4, 4 of four rows at once.
        data = self.write_rows("ten", self.rows[:10])
        flags = ["--dataloader_drop_last", "true", "--save_steps", "2"]
        small = ["--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"]
        large = ["--per_device_train_batch_size", "4"]
        self.begin("dropped", *flags, *small, "--num_train_epochs", "4", data=data)
        self.expect_one_message(self.train("dropped", *flags, *large, "--num_train_epochs", "4", data=data), 78,
                                "the number of steps, on which the learning rates depend: 12 then, 8 now")
        flat = [*flags, "--lr_scheduler_type", "constant", "--num_train_epochs", "4"]
        self.begin("flat", *flat, *small, data=data)
        self.expect(self.train("flat", *flat, *large, data=data), 0, "resuming from")
        self.assertEqual([line["epoch"] for line in read_steps(self.path("flat"))][2:], [1.5, 2, 2.5, 3, 3.5, 4])


class Targets(Case):
    def test_rows_without_a_target_are_dropped(self):
        rows = [{"input_ids": [5, 6, 7, 8]}, {"input_ids": [9]}, {"input_ids": [1, 2, 3], "labels": [1, -100, -100]},
                {"input_ids": [4, 5]}]
        data = self.write_rows("few", rows)
        for length in ("48", "null"):
            result = self.train("few" + length, "--max_steps", "1", "--save_strategy", "no", "--max_length", length, data=data)
            self.expect(result, 0, "dropped     2 documents without anything to learn")

    def test_data_without_a_target_are_refused(self):
        data = self.write_rows("none", [{"input_ids": [1, 2, 3], "labels": [1, -100, -100]}] * 8)
        for flags in ([], ["--max_length", "null"], ["--packing"]):
            self.expect_one_message(self.train("none", "--max_steps", "1", *flags, data=data), 65,
                                    "no token behind the first one of a document has a label")
        self.expect_one_message(self.train("none", "--max_steps", "1", "--max_length", "1"), 65, "has anything left to learn")

    def test_a_step_without_targets_is_skipped(self):
        # Packed rows may be without a target: documents of one token. Each step is one row.
        alone = [{"input_ids": [9]}] * 4
        data = self.write_rows("packed", [*alone, {"input_ids": [5, 6, 7, 8]}, *alone, *alone])
        flags = ["--packing", "--packing_strategy", "bfd", "--max_length", "4", "--per_device_train_batch_size", "1",
                 "--train_sampling_strategy", "sequential", "--shuffle_dataset", "false", "--num_train_epochs", "1",
                 "--weight_decay", "0.1", "--lr_scheduler_type", "constant"]
        result = self.train("skipped", *flags, "--save_steps", "1", data=data)
        self.expect(result, 0, "its rows have nothing to learn", "The step is skipped, as all further ones of this kind")
        self.assertEqual(result.stderr.count("its rows have nothing to learn"), 1, result.stderr)
        lines = read_steps(self.path("skipped"))
        learned = [line for line in lines if line["loss"] is not None]
        self.assertEqual(len(learned), 1)
        self.assertEqual([line.get("skipped_steps", 0) for line in lines], [0 if line in learned else 1 for line in lines])
        end = read_metrics(self.path("skipped"))[-1]
        self.assertAlmostEqual(end["train_loss"], learned[0]["loss"])
        ranges = {}
        for line in lines:  # a skipped step leaves weights and moments as they are
            with open(self.path("skipped", f"checkpoint-{line['step']}", "manifest.json")) as file:
                ranges[line["step"]] = {r["dataset"]: r["xxh3_128"] for r in json.load(file)["ranges"]}
        for line in lines[1:]:
            same = ranges[line["step"]] == ranges[line["step"] - 1]
            self.assertEqual(same, line["loss"] is None, line["step"])


class Files(Case):
    STEPS = ["--max_steps", "4", "--save_steps", "2", "--per_device_train_batch_size", "4"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls()
        case.expect(case.train("run", *cls.STEPS), 0)

    def test_the_small_files_of_a_checkpoint_have_hashes(self):
        for name in ("config.json", "tokenizer.json"):
            with self.subTest(name):
                output = self.copy("run")
                one = self.path(output, "checkpoint-4")
                said = run("inspect", one)
                self.expect(said, 0, "no hash of it: README.md, trainer_state.json", stream="stdout")
                self.assertIn(name, next(line for line in said.stdout.splitlines() if line.startswith("as it was written, too: ")))
                with open(os.path.join(one, name)) as file:
                    text = file.read()
                with open(os.path.join(one, name), "w") as file:
                    file.write(text.replace("1", "2", 1))  # as long as it was
                changed = f"{name}: is not what was written"
                self.expect_one_message(run("inspect", one), 65, changed)
                self.expect_one_message(run("export", one, "--output_dir", self.path("exported-changed")), 65, changed)
                self.expect_one_message(self.train("from-changed", *self.STEPS, "--resume_from_checkpoint", "never", model=one), 65,
                                        changed)
                again = [flag.replace("4", "6") for flag in self.STEPS[:2]] + self.STEPS[2:]
                self.expect(self.train(output, *again, "--allow_changed"), 0, "checkpoint left out", changed,
                            "resuming from " + self.path(output, "checkpoint-2"))
                shutil.rmtree(self.path(output))

    def test_manifests(self):
        output = self.copy("run")
        one = self.path(output, "checkpoint-4")
        with open(os.path.join(one, "manifest.json")) as file:
            manifest = json.load(file)

        def write(**changes):
            os.path.exists(os.path.join(one, "checkpoint.json")) and os.remove(os.path.join(one, "checkpoint.json"))
            files = {name: size for name, size in manifest["files"].items() if name != "checkpoint.json"}
            with open(os.path.join(one, "manifest.json"), "w") as file:
                json.dump({**manifest, "files": files, **changes}, file)

        earlier = {name: value for name, value in manifest.items() if name != "hashes"}
        write()
        manifest = earlier  # as an earlier version wrote it
        write()
        self.expect(run("inspect", one), 0, "no hash of it: ", "config.json", stream="stdout")
        write(frames={})
        self.expect_one_message(run("inspect", one), 65, "state.h5: manifest.json has no hash of HDF5's own bytes")
        write(frames={"states.h5": manifest["frames"]["state.h5"]})
        self.expect_one_message(run("inspect", one), 65, "manifest.json has a hash of states.h5")

    def test_output_dir_is_the_model(self):
        model = self.changed_model("precious")
        before = {name: os.stat(os.path.join(model, name)).st_mtime_ns for name in os.listdir(model)}
        for flags in ([], ["--use_peft"]):
            self.expect_one_message(self.train("precious", *self.STEPS, *flags, model=model), 78, "is model_name_or_path",
                                    "would replace what is there")
        self.expect(self.train("adapter", *self.STEPS, "--use_peft", "--save_strategy", "no"), 0)
        self.expect_one_message(self.train("adapter", *self.STEPS, "--adapter_name_or_path", self.path("adapter")), 78,
                                "is adapter_name_or_path")
        self.assertEqual({name: os.stat(os.path.join(model, name)).st_mtime_ns for name in os.listdir(model)}, before)

    def test_export_replaces_its_own_results_alone(self):
        model = self.changed_model("kept")
        for folder in (model, self.path("run")):
            self.expect_one_message(run("export", self.path("run", "checkpoint-4"), "--output_dir", folder), 78,
                                    "holds a model that is no export of the run")
        exported = self.path("exported")
        for step in (2, 4):
            self.expect(run("export", self.path("run", f"checkpoint-{step}"), "--output_dir", exported), 0)
        self.copy("run")
        self.expect_one_message(run("export", self.path(f"run-{self.id()}"), "--output_dir", exported), 78, "holds a model")


    def test_a_limit_of_file_sizes(self):
        result = self.train("limited", "--max_steps", "6", "--save_steps", "1", "--max_failed_saves", "2",
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300 << 10, 300 << 10)))
        self.expect(result, 74, "raise the limit (ulimit -f)", "max_failed_saves = 2")


class Lines(Case):
    EVALUATED = ["--max_steps", "8", "--save_steps", "2", "--eval_strategy", "steps", "--eval_steps", "1", "--per_device_train_batch_size",
                 "4", "--eval_dataset_name"]

    def test_lost_lines_come_back(self):
        flags = [*self.EVALUATED, self.data, "--learning_rate", "0", "--metric_for_best_model", "eval_loss", "--early_stopping_patience", "5"]
        whole = self.train("whole", *flags)
        self.expect(whole, 0, "early stopping after step 6 of 8")
        self.begin("lost", *flags, saves=2)
        metrics = self.path("lost", "metrics.jsonl")
        with open(metrics) as file:
            lines = file.readlines()
        with open(metrics, "w") as file:
            file.writelines(lines[:3])
        self.expect(self.train("lost", *flags), 0, "lacked 5 of the lines up to the checkpoint; they are back",
                    "early stopping after step 6 of 8")
        for kind in ("loss", "eval_loss"):
            ours, theirs = ([line for line in read_metrics(self.path(output)) if kind in line] for output in ("lost", "whole"))
            self.assertEqual([line["step"] for line in ours], [line["step"] for line in theirs])
            for a, b in zip(ours, theirs):
                self.assertAlmostEqual(a[kind], b[kind], 6)

    def test_totals_are_those_of_all_attempts(self):
        flags = ["--max_steps", "6", "--save_steps", "2", "--logging_steps", "4", "--per_device_train_batch_size", "4"]
        self.expect(self.train("in-one-go", *flags), 0)
        self.begin("in-two", *flags)
        self.expect(self.train("in-two", *flags), 0, "resuming from")
        one, two = (read_metrics(self.path(output))[-1] for output in ("in-one-go", "in-two"))
        self.assertAlmostEqual(one["train_loss"], two["train_loss"], 6)
        self.assertEqual(one["total_flos"], two["total_flos"])
        # As in transformers the last steps have no line unless one is due.
        self.assertEqual([line["step"] for line in read_steps(self.path("in-one-go"))], [4])
        with open(self.path("in-one-go", "trainer_state.json")) as file:
            state = json.load(file)
        self.assertEqual((state["global_step"], state["epoch"], state["total_flos"]), (6, 0.5, one["total_flos"]))
        self.assertEqual([entry["step"] for entry in state["log_history"]], [4, 6])


class Rates(Case):
    """lr_scheduler_type reduce_lr_on_plateau: the rates follow the evaluations of all attempts, whatever their layouts."""

    FLAGS = ["--max_steps", "8", "--save_steps", "4", "--eval_strategy", "steps", "--eval_steps", "1", "--learning_rate", "0.05",
             "--lr_scheduler_type", "reduce_lr_on_plateau", "--lr_scheduler_kwargs", '{"patience": 0, "factor": 0.5, "cooldown": 1}',
             "--eval_on_start"]

    def check(self, output, rates):
        """torch's rule: an evaluation that is not better by a ten thousandth halves the rate, unless the one before did."""
        lines = read_metrics(self.path(output))
        losses = [line["eval_loss"] for line in lines if "eval_loss" in line and line["step"] > 0]
        rate, best, waits, expected = 0.05, float("inf"), 0, []
        for loss in losses:
            expected.append(rate)
            is_better, best = loss < best * (1 - 1e-4), loss if loss < best * (1 - 1e-4) else best
            if waits > 0:
                waits -= 1
            elif not is_better:
                rate, waits = rate * 0.5, 1
        found = [line["learning_rate"] for line in read_steps(self.path(output))]
        self.assertEqual(found, expected)
        self.assertGreater(len(set(found)), 2)
        self.assertEqual(found, rates or found)
        return found

    def test_every_layout_and_attempt(self):
        flags = [*self.FLAGS, "--eval_dataset_name", self.data]
        self.expect(self.train("whole", *flags, "--per_device_train_batch_size", "4"), 0)
        rates = self.check("whole", None)
        self.expect(self.train("zero3", *flags, "--profile", "zero3", "--cp_size", "2", "--per_device_train_batch_size", "4", ranks=2), 0)
        self.check("zero3", rates)
        self.begin("killed", *flags, "--profile", "zero3", "--per_device_train_batch_size", "2", ranks=2)
        changed = self.copy("killed")
        self.expect(self.train("killed", *flags, "--per_device_train_batch_size", "4"), 0, "resuming from")
        self.check("killed", rates)
        flags[flags.index("--eval_steps") + 1] = "2"
        self.expect_one_message(self.train(changed, *flags, "--per_device_train_batch_size", "4"), 78, "eval_steps: 1 then, 2 now")

    def test_named_sets(self):
        sets = json.dumps({"a": self.data, "b": self.data})
        flags = [*self.FLAGS, "--eval_dataset_name", sets, "--per_device_train_batch_size", "4", "--save_strategy", "no"]
        self.expect_one_message(self.train("no", *flags), 78, "metric_for_best_model", "eval_dataset_name has named sets")
        self.expect(self.train("sets", *flags, "--metric_for_best_model", "b_loss"), 0)
        self.assertLess(read_steps(self.path("sets"))[-1]["learning_rate"], 0.05)


class Noise(Case):
    """neftune_noise_alpha: noise of training alone, the same in every layout and attempt."""

    def test_every_layout_and_attempt(self):
        flags = ["--max_steps", "4", "--save_steps", "2", "--eval_strategy", "steps", "--eval_steps", "4", "--eval_dataset_name", self.data]
        noisy = [*flags, "--neftune_noise_alpha", "20"]
        one = ["--per_device_train_batch_size", "4"]
        self.expect(self.train("plain", *flags, *one), 0)
        self.expect(self.train("noisy", *noisy, *one), 0)
        losses = [line["loss"] for line in read_steps(self.path("noisy"))]
        plain = [line["loss"] for line in read_steps(self.path("plain"))]
        self.assertGreater(abs(losses[0] - plain[0]), 1e-3)
        self.expect(self.train("split", *noisy, "--profile", "zero3", "--cp_size", "2", *one, ranks=2), 0)
        self.begin("killed", *noisy, *one)
        self.expect(self.train("killed", *noisy, "--profile", "zero1", "--per_device_train_batch_size", "2", ranks=2), 0, "resuming from")
        for output in ("split", "killed"):
            for ours, theirs in zip(read_steps(self.path(output)), losses, strict=True):
                self.assertAlmostEqual(ours["loss"], theirs, delta=1e-5)
        still = [[line["eval_loss"] for line in read_metrics(self.path(output)) if "eval_loss" in line] for output in ("a", "b")
                 if not self.expect(self.train(output, *(flags if output == "a" else noisy), *one, "--learning_rate", "0"), 0)]
        self.assertEqual(*still)
        self.begin("other", *noisy, *one)
        self.expect_one_message(self.train("other", *flags, *one), 78, "neftune_noise_alpha: 20 then")


class Settings(TrainerTest):
    def test_values_that_transformers_refuses(self):
        for name, others in (("logging_steps", []), ("save_steps", []), ("eval_steps", ["--eval_strategy", "steps"])):
            self.expect_one_message(run("config", f"--{name}", "10.5", *others), 78, f"{name} = 10.5", "must be a whole number if it is above 1")
            self.expect(run("config", f"--{name}", "0.5", *others), 0)
        self.expect_one_message(run("config", "--warmup_ratio", "1"), 78, "must be below 1", "warmup_steps")
        self.expect(run("config", "--warmup_ratio", "0.1"), 0, "warmup_steps: 0.1", stream="stdout")

    def test_a_stream_has_its_order(self):
        self.expect(run("config", "--dataset_streaming", "true"), 0, "train_sampling_strategy: sequential", stream="stdout")
        self.expect(run("config", "--dataset_streaming", "false"), 0, "train_sampling_strategy: random", stream="stdout")
        self.expect(run("config", "--dataset_streaming", "true", "--train_sampling_strategy", "random"), 78)


if __name__ == "__main__":
    unittest.main()

"""What a run leaves in output_dir and says on the way: metrics, states, the model, the best one, bad numbers."""

import json
import math
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TRAINER, TrainerTest, clean_environment, read_metrics, run  # noqa: E402

import unittest  # noqa: E402

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerState  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
MODEL = os.path.join(DATA, "models", "qwen2-tiny")
COMMON = ["--dataset_name", os.path.join(DATA, "rows", "chat.jsonl"), "--bf16", "false", "--logging_steps", "2"]
EVALUATED = [*COMMON, "--eval_dataset_name", os.path.join(DATA, "rows", "chat.eval.jsonl"), "--max_steps", "8",
             "--eval_strategy", "steps", "--eval_steps", "2"]

# The entropy falls at once and grows from there, so the first evaluation is the best.
GROWING = [*EVALUATED, "--learning_rate", "0.08", "--lr_scheduler_type", "constant",
           "--metric_for_best_model", "entropy", "--greater_is_better", "false"]


class RunFiles(TrainerTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = os.path.join(self.folder.name, "run")

    def train(self, *flags, model=MODEL, ranks=None, **variables):
        return run("train", "--model_name_or_path", model, "--output_dir", self.output, *flags, ranks=ranks, **variables)

    def checkpoints(self):
        return sorted(name for name in os.listdir(self.output) if name.startswith("checkpoint-"))

    def read(self, name):
        with open(os.path.join(self.output, name)) as file:
            return json.load(file)

    def test_steps_are_profiled(self):
        self.expect(self.train(*COMMON, "--max_steps", "4", "--profile_steps", "2-3", ranks=2), 0, "done: step 4")
        with open(os.path.join(MODEL, "config.json")) as file:
            blocks = json.load(file)["num_hidden_layers"]
        for rank in range(2):
            events = self.read(f"profile-1-rank{rank}.json")["traceEvents"]
            names = [event["name"] for event in events if event.get("ph") == "X"]
            for what in ["embedding", "loss", *(f"{way} of block {block}" for way in ("forward", "backward") for block in range(blocks))]:
                self.assertEqual(names.count(what), 2, what)  # of two steps, each of one micro-batch
            self.assertIn("aten::empty", names)

    def test_everything_is_there(self):
        result = self.train(*EVALUATED, "--eval_on_start", "--save_steps", "4", ranks=2)
        self.expect(result, 0, "eval after step 0: loss 6.7457", "done: step 8", self.output)
        self.assertNotIn("\r", result.stderr)  # a file, not a terminal
        metrics = read_metrics(self.output)
        self.assertEqual([line["step"] for line in metrics if "loss" in line], [2, 4, 6, 8])
        self.assertEqual([line["step"] for line in metrics if "eval_loss" in line], [0, 2, 4, 6, 8])
        self.assertEqual({line["attempt"] for line in metrics}, {1})
        for line in metrics:
            if "loss" in line:
                self.assertGreater(line["mfu"], 0)
                self.assertLess(line["padding_share"], 0.01)
                self.assertIn(line["peak_memory_rank"], (0, 1))
        flos = [line["total_flos"] for line in metrics if "loss" in line]
        self.assertEqual(flos, sorted(flos))

        state = TrainerState.load_from_json(os.path.join(self.output, "trainer_state.json"))
        self.assertEqual((state.global_step, state.max_steps, state.eval_steps, state.save_steps), (8, 8, 2, 4))
        self.assertEqual([line["step"] for line in state.log_history],
                         [line["step"] for line in metrics if "save_step" not in line])
        self.assertEqual(state.num_train_epochs, math.ceil(state.epoch))
        self.assertIsNone(state.best_metric)  # nobody asked for one
        at_4 = TrainerState.load_from_json(os.path.join(self.output, "checkpoint-4", "trainer_state.json"))
        self.assertEqual((at_4.global_step, at_4.log_history[-1]["step"]), (4, 4))

        record = self.read("run.json")
        self.assertEqual(record["settings"]["eval_steps"]["value"], 2)
        self.assertEqual(record["settings"]["eval_steps"]["origin"], "command line")
        self.assertEqual((record["mesh"]["dp_replicate"], record["effective_batch"], len(record["ranks"])), (2, 16, 2))
        self.assertIn("LibTorch", record["versions"])

        # The model is the checkpoint's, and transformers computes the same loss with it.
        model = AutoModelForCausalLM.from_pretrained(self.output)
        self.assertEqual(model.dtype, torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(self.output)
        sums = torch.zeros(2, dtype=torch.float64)
        with open(os.path.join(DATA, "rows", "chat.eval.jsonl")) as file, torch.no_grad():
            for row in file:
                ids = tokenizer.apply_chat_template(json.loads(row)["messages"], return_dict=False, return_tensors="pt")
                count = ids.shape[1] - 1
                sums += torch.tensor([model(ids, labels=ids).loss.item() * count, count])
        last = [line["eval_loss"] for line in metrics if "eval_loss" in line][-1]
        self.assertAlmostEqual(last, (sums[0] / sums[1]).item(), delta=1e-5)

        # The same command again finds nothing to do, and leaves everything as it is.
        before = os.path.getmtime(os.path.join(self.output, "model.safetensors"))
        self.expect(self.train(*EVALUATED, "--eval_on_start", "--save_steps", "4", ranks=2), 0, "this run is complete")
        self.assertEqual(read_metrics(self.output), metrics)
        self.assertEqual(os.path.getmtime(os.path.join(self.output, "model.safetensors")), before)

    def test_the_model_talks_as_it_was_taught(self):
        from transformers import AutoConfig, GenerationConfig
        plain = os.path.join(self.folder.name, "plain")
        shutil.copytree(MODEL, plain)
        tokenizer = AutoTokenizer.from_pretrained(plain)
        eos, new = tokenizer.eos_token_id, next(token for token in tokenizer.all_special_tokens if token != tokenizer.eos_token)
        template = os.path.join(self.folder.name, "taught.jinja")
        with open(template, "w") as file:
            file.write("{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}")
        with open(os.path.join(plain, "generation_config.json"), "w") as file:
            json.dump({"eos_token_id": eos, "top_k": 5}, file)
        with open(template) as file:
            source = file.read()
        self.expect(self.train(*COMMON, "--max_steps", "2", "--save_steps", "2", "--chat_template_path", template,
                               "--eos_token", new, model=plain), 0)
        exported = os.path.join(self.folder.name, "exported")
        self.expect(run("export", os.path.join(self.output, "checkpoint-2"), "--output_dir", exported), 0)
        for folder in (self.output, os.path.join(self.output, "checkpoint-2"), exported):
            taught = AutoTokenizer.from_pretrained(folder)
            self.assertEqual((taught.chat_template, taught.eos_token), (source, new), folder)
            self.assertEqual(AutoConfig.from_pretrained(folder).eos_token_id, taught.eos_token_id)
            generation = GenerationConfig.from_pretrained(folder)
            self.assertEqual((generation.eos_token_id, generation.top_k), ([taught.eos_token_id, eos], 5))
        # Another model's template brings its end of sequence, which is the only one then.
        other = os.path.join(self.folder.name, "other")
        shutil.copytree(exported, other)
        shutil.rmtree(self.output)
        text = ["--dataset_name", os.path.join(DATA, "rows", "text.jsonl"), *COMMON[2:]]
        self.expect(self.train(*text, "--max_steps", "1", "--chat_template_path", other, model=plain), 0)
        taught = AutoTokenizer.from_pretrained(self.output)
        self.assertEqual((taught.chat_template, taught.eos_token), (source, new))
        self.assertEqual(GenerationConfig.from_pretrained(self.output).eos_token_id, taught.eos_token_id)
        again = self.train(*COMMON, "--max_steps", "3", "--chat_template_path", "none.jinja", model=plain)
        self.expect_one_message(again, 66, "chat_template_path = none.jinja: there is no such file")

    def test_tensorboard(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        flags = [*EVALUATED, "--report_to", "tensorboard", "--save_steps", "4", "--full_determinism",
                 "--logging_dir", os.path.join(self.folder.name, "events")]
        self.expect(self.train(*flags), 0)
        shutil.rmtree(os.path.join(self.output, "checkpoint-8"))
        self.expect(self.train(*flags), 0, "resuming from")  # whose points of steps 5 to 8 count
        self.assertFalse(os.path.exists(os.path.join(self.output, "tensorboard")))
        shown = EventAccumulator(os.path.join(self.folder.name, "events"))
        shown.Reload()
        for tag, key in (("train/loss", "loss"), ("eval/loss", "eval_loss"), ("train/learning_rate", "learning_rate")):
            points = [(point.step, point.value) for point in shown.Scalars(tag)]
            lines = [(line["step"], line[key]) for line in read_metrics(self.output) if key in line]
            self.assertEqual([step for step, _ in points], [step for step, _ in lines])
            for point, line in zip(points, lines):
                self.assertAlmostEqual(point[1], line[1], delta=1e-6 * abs(line[1]))

    def found_batch(self, memory, *flags, batch=4):
        """The rows of a micro-batch that auto_find_batch_size chooses, the losses, and the line that says it."""
        result = self.train(*COMMON, "--logging_steps", "1", "--max_steps", "2", "--per_device_train_batch_size", str(batch),
                            "--gradient_accumulation_steps", "3", "--auto_find_batch_size", "--save_steps", "1", *flags,
                            RINGSHARD_TEST_DEVICE_MEMORY=str(memory))
        self.expect(result, 0, "done: step 2")
        line, = [line for line in result.stderr.splitlines() if line.startswith("auto_find_batch_size: ")]
        settings = self.read("run.json")["settings"]
        rows, accumulated = (settings[name]["value"] for name in ("per_device_train_batch_size", "gradient_accumulation_steps"))
        self.assertEqual(rows * accumulated, 3 * batch)
        self.assertIn(f"auto_find_batch_size: {rows} rows in a micro-batch, {accumulated} micro-batches in a step", line)
        self.assertIn("auto_find_batch_size [command line]", settings["per_device_train_batch_size"]["origin"])
        return rows, [entry["loss"] for entry in read_metrics(self.output) if "loss" in entry], line

    def test_the_batch_size_is_found(self):
        """The largest micro-batch that fits, at the same rows of a step: the losses stay, and so does the choice in a resume."""
        most, losses, line = self.found_batch(64 << 30)
        self.assertEqual(most, 12)
        self.assertIn("which are all rows of a step", line)
        held = float(re.search(r"a rank holds ([0-9.]+) MiB", line)[1]) * 2**20
        shutil.rmtree(self.output)
        fewer, others, line = self.found_batch(int(held * 0.9))  # of which nine tenths are used
        self.assertIn(fewer, (3, 4, 6))
        self.assertRegex(line, "[0-9]+ rows would take ")
        for one, other in zip(losses, others, strict=True):
            self.assertAlmostEqual(one, other, delta=2e-6 * one)
        shutil.rmtree(os.path.join(self.output, "checkpoint-2"))
        again, _, line = self.found_batch(64 << 30)
        self.assertEqual((again, "as in run.json of output_dir" in line), (fewer, True))

    def test_the_rows_of_an_epoch_with_another_batch(self):
        _, _, line = self.found_batch(64 << 30, "--dataloader_drop_last", batch=7)
        self.assertIn("; an epoch has 231 rows, and with 7 rows in a micro-batch it would have 238", line)

    def test_the_result_is_evaluated_once_more(self):
        result = self.train(*GROWING, "--load_best_model_at_end", "--save_steps", "2", "--do_predict", ranks=2)
        self.expect(result, 0, "do_predict: the result has a loss of ")
        best = min((line for line in read_metrics(self.output) if "eval_entropy" in line), key=lambda line: line["eval_entropy"])
        found = self.read("predict_results.json")
        self.assertEqual((found["predict_loss"], found["predict_entropy"]), (best["eval_loss"], best["eval_entropy"]))
        self.assertGreater(found["predict_samples"], 0)

    def test_evaluation_at_every_layout(self):
        losses = []
        for flags, ranks in (([], None), (["--profile", "zero3"], 3), (["--cp_size", "2", "--sp_size", "2"], 4),
                             (["--profile", "zero2", "--per_device_eval_batch_size", "40"], 2)):
            shutil.rmtree(self.output, ignore_errors=True)
            self.expect(self.train(*EVALUATED, "--max_steps", "1", "--learning_rate", "0", *flags, ranks=ranks), 0)
            losses.append([line for line in read_metrics(self.output) if "eval_loss" in line][-1])
        for line in losses[1:]:
            self.assertAlmostEqual(line["eval_loss"], losses[0]["eval_loss"], delta=1e-6 * losses[0]["eval_loss"])
            self.assertEqual(line["eval_mean_token_accuracy"], losses[0]["eval_mean_token_accuracy"])

    def test_named_evaluation_sets(self):
        """Each has the numbers that it has alone, and the best model goes by one of them."""
        sets = {"chat": os.path.join(DATA, "rows", "chat.eval.jsonl"), "train": os.path.join(DATA, "rows", "chat.jsonl")}
        flags = [*COMMON, "--max_steps", "4", "--eval_strategy", "steps", "--eval_steps", "2", "--save_steps", "2"]
        alone = {}
        for name, path in sets.items():
            self.expect(self.train(*flags, "--save_strategy", "no", "--eval_dataset_name", path, ranks=2), 0)
            alone[name] = [line["eval_loss"] for line in read_metrics(self.output) if "eval_loss" in line]
            shutil.rmtree(self.output)
        settings = os.path.join(self.folder.name, "sets.yaml")
        with open(settings, "w") as file:
            file.write("eval_dataset_name:\n" + "".join(f"  {name}: {path}\n" for name, path in sets.items()))
        chosen = ["--load_best_model_at_end", "--metric_for_best_model", "eval_train_loss", "--report_to", "tensorboard"]
        killed = self.train(*flags, "--config", settings, *chosen, ranks=2, RINGSHARD_FAULT="step:4:kill")
        self.assertNotEqual(killed.returncode, 0)
        result = self.train(*flags, "--eval_dataset_name", json.dumps(sets), *chosen, ranks=2)
        self.expect(result, 0, "eval of chat after step 4: loss ", "eval of train after step 4: loss ", "eval_train_loss")
        lines = read_metrics(self.output)
        for name in sets:
            found = [line for line in lines if f"eval_{name}_loss" in line]
            self.assertEqual([line["step"] for line in found], [2, 4])
            for line, loss in zip(found, alone[name]):
                self.assertAlmostEqual(line[f"eval_{name}_loss"], loss, delta=1e-6 * loss)
                self.assertLessEqual({f"eval_{name}_runtime", f"eval_{name}_samples_per_second", f"eval_{name}_steps_per_second",
                                      f"eval_{name}_entropy", f"eval_{name}_mean_token_accuracy", "eval_num_tokens"}, set(line))
        self.assertFalse([line for line in lines if "eval_loss" in line])
        state = self.read("trainer_state.json")
        self.assertEqual((state["best_global_step"], state["best_metric"]), (4, min(line["eval_train_loss"] for line in lines
                                                                                    if "eval_train_loss" in line)))
        self.assertEqual(sum("eval_chat_loss" in entry for entry in state["log_history"]), 2)
        self.expect(run("report", self.output, "-o", os.path.join(self.folder.name, "page.html")), 0)
        with open(os.path.join(self.folder.name, "page.html")) as page:
            self.assertIn("Dots: eval_chat_loss, eval_train_loss.", page.read())

    def test_best_model(self):
        flags = [*GROWING, "--load_best_model_at_end", "--save_strategy", "best", "--save_total_limit", "1"]
        self.expect(self.train(*flags), 0, "the best model is that of step ")
        evaluations = [line for line in read_metrics(self.output) if "eval_loss" in line]
        best = min(evaluations, key=lambda line: line["eval_entropy"])
        self.assertLess(best["step"], 8)
        self.assertEqual(self.checkpoints(), [f"checkpoint-{best['step']}"])
        state = self.read("trainer_state.json")
        self.assertEqual((state["best_global_step"], state["best_metric"]), (best["step"], best["eval_entropy"]))
        # What lies in output_dir is that model: an evaluation of it gives the best loss.
        again = os.path.join(self.folder.name, "again")
        shutil.copytree(self.output, os.path.join(self.folder.name, "model"),
                        ignore=shutil.ignore_patterns("checkpoint-*", "attempt-*", "*.jsonl", "latest"))
        self.output, model = again, os.path.join(self.folder.name, "model")
        self.expect(self.train(*EVALUATED, "--max_steps", "1", "--learning_rate", "0", model=model), 0)
        self.assertAlmostEqual([line for line in read_metrics(again) if "eval_loss" in line][-1]["eval_loss"],
                               best["eval_loss"], delta=1e-5)

    def test_the_best_checkpoint_outlives_the_limit(self):
        flags = [*GROWING, "--save_steps", "2", "--save_total_limit", "1", "--load_best_model_at_end"]
        self.expect(self.train(*flags), 0)
        best = self.read("trainer_state.json")["best_global_step"]
        self.assertEqual(self.checkpoints(), sorted({f"checkpoint-{best}", "checkpoint-8"}))

    def test_a_best_model_that_the_disk_did_not_take(self):
        flags = [*GROWING, "--save_steps", "2", "--load_best_model_at_end"]
        result = self.train(*flags, RINGSHARD_FAULT="save:write:1:enospc")
        self.expect(result, 0, "no checkpoint was made right after an evaluation better than all before",
                    "the model is that of the last step")
        self.assertEqual(self.checkpoints(), ["checkpoint-4", "checkpoint-6", "checkpoint-8"])
        last = run("export", os.path.join(self.output, "checkpoint-8"), "--output_dir",
                   os.path.join(self.folder.name, "last"))
        self.expect(last, 0)
        theirs = load_file(os.path.join(self.folder.name, "last", "model.safetensors"))
        for name, tensor in load_file(os.path.join(self.output, "model.safetensors")).items():
            self.assertTrue(torch.equal(tensor, theirs[name]), name)

    def test_a_run_that_goes_on_from_its_best(self):
        flags = [*GROWING, "--save_steps", "2", "--save_total_limit", "1", "--load_best_model_at_end"]
        self.assertNotEqual(self.train(*flags, RINGSHARD_FAULT="save:begin:2:kill").returncode, 0)
        self.expect(self.train(*flags), 0, "resuming from " + os.path.join(self.output, "checkpoint-2"),
                    "the best model is that of step 2")
        self.assertIn("checkpoint-2", self.checkpoints())
        weights = load_file(os.path.join(self.output, "model.safetensors"))
        exported = os.path.join(self.folder.name, "exported")
        self.expect(run("export", os.path.join(self.output, "checkpoint-2"), "--output_dir", exported), 0)
        best = load_file(os.path.join(exported, "model.safetensors"))
        self.assertTrue(all(torch.equal(weights[name], best[name]) for name in best))

    def test_a_best_save_that_fails_leaves_the_one_before(self):
        flags = [*EVALUATED[:-6], "--max_steps", "6", "--eval_strategy", "steps", "--eval_steps", "2", "--save_steps", "2",
                 "--save_total_limit", "1", "--load_best_model_at_end"]
        result = self.train(*flags, RINGSHARD_FAULT="save:describe:3:eio")
        self.expect(result, 74, "warning: the save of step 6 failed", "the best model is that of step 4", "the save of the last step failed")
        self.expect(self.train(*flags), 0, "resuming from")
        self.assertTrue(self.read("trainer_state.json")["best_model_checkpoint"].endswith("checkpoint-6"))

    def test_a_resumed_run_knows_the_best(self):
        flags = [*GROWING, "--save_steps", "2", "--load_best_model_at_end", "--full_determinism"]
        self.expect(self.train(*flags), 0)
        whole = self.read("trainer_state.json")
        shutil.rmtree(os.path.join(self.output, "checkpoint-8"))
        self.expect(self.train(*flags), 0, "resuming from")
        resumed = self.read("trainer_state.json")
        for key in ("best_global_step", "best_metric", "global_step", "total_flos", "num_input_tokens_seen"):
            self.assertEqual(resumed[key], whole[key], key)
        self.assertEqual([line["step"] for line in resumed["log_history"]],
                         [line["step"] for line in whole["log_history"]])

    def test_contradictions_are_refused(self):
        for words, *flags in (
            ("must be one of loss, entropy or mean_token_accuracy", "--metric_for_best_model", "bleu"),
            ("known by evaluating", "--save_strategy", "best", "--eval_strategy", "no"),
            ("must be a multiple of eval_steps", "--load_best_model_at_end", "--save_steps", "3"),
            ("give both strategies the same value", "--load_best_model_at_end", "--save_strategy", "epoch"),
        ):
            with self.subTest(words):
                self.expect_one_message(self.train(*EVALUATED, *flags), 78, words)
        no_test_split = self.train(*COMMON, "--eval_strategy", "epoch")
        self.expect_one_message(no_test_split, 66, "test")

    def test_weights_that_are_no_numbers(self):
        model = os.path.join(self.folder.name, "model")
        shutil.copytree(MODEL, model)
        weights = load_file(os.path.join(model, "model.safetensors"))
        weights["model.layers.1.mlp.up_proj.weight"][3, 5] = float("nan")
        save_file(weights, os.path.join(model, "model.safetensors"), metadata={"format": "pt"})
        self.expect_one_message(self.train(*COMMON, "--profile", "zero3", model=model, ranks=2), 65,
                                "model.layers.1.mlp.up_proj.weight holds NaN or infinite numbers")

    def test_longer_than_the_model(self):
        model = os.path.join(self.folder.name, "model")
        shutil.copytree(MODEL, model)
        path = os.path.join(model, "config.json")
        with open(path) as file:
            config = json.load(file)
        with open(path, "w") as file:
            json.dump({**config, "max_position_embeddings": 100}, file)
        self.expect(self.train(*COMMON, "--max_steps", "1", model=model), 0,
                    "warning: the data has a document of 333 tokens", "max_position_embeddings = 100")
        self.expect_one_message(self.train(*COMMON, "--max_steps", "1", "--strict_length", model=model), 78,
                                "strict_length = true: the data has a document of 333 tokens", "max_length = 100")

    def test_a_terminal_shows_a_bar(self):
        def on_terminal(*flags):
            shutil.rmtree(self.output, ignore_errors=True)
            master, slave = pty.openpty()
            process = subprocess.Popen(
                [TRAINER, "train", "--model_name_or_path", MODEL, "--output_dir", self.output, *EVALUATED, *flags],
                stderr=slave, stdout=subprocess.DEVNULL, env=clean_environment())
            os.close(slave)
            shown = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:
                    break
                if not part:
                    break
                shown += part
            os.close(master)
            self.assertEqual(process.wait(), 0)
            return shown.decode()

        shown = on_terminal()
        self.assertIn("100% |####", shown)
        self.assertIn("8/8  loss ", shown)
        self.assertIn("eval after step 8", shown)
        plain = on_terminal("--disable_tqdm")
        self.assertIn("step 2/8 ", plain)
        self.assertLess(plain.index("step 8/8 "), plain.index("eval after step 8"))
        self.assertNotIn("|####", plain)


if __name__ == "__main__":
    unittest.main()

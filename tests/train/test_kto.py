"""Learning from single answers that are desirable or not: the numbers of TRL's KTOTrainer, in every layout, and what is refused."""

import json
import unittest

from scored_rows import MODEL, STEPS, read_metrics, read_steps, run
import test_preferences  # also sets variables; by its own name, so that its tests are not run here
from test_preferences import BATCH, EXPERTS, LAYOUTS, LENGTH, PAIRS, Pairs, as_flags, messages, random_pairs, without_prompt
from trainer import some_of

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PrinterCallback
from trl import KTOConfig, KTOTrainer

REWARDS = ("rewards/chosen", "rewards/rejected", "rewards/margins")
NUMBERS = (*REWARDS, "logps/chosen", "logps/rejected")
# Settings in TRL's names.
LONG_TRACES = [{}, {"beta": 0.3, "desirable_weight": 1.5, "undesirable_weight": 0.5}]
SHORT_TRACES = [{"loss_type": "apo_zero_unpaired"}, {"desirable_weight": 0.0}, {"beta": 1.0, "learning_rate": 0.0005},
                {"loss_type": "apo_zero_unpaired", "undesirable_weight": 2.0}]
FORMS = [{"loss_type": "apo_zero_unpaired", "beta": 0.3}, {"undesirable_weight": 0.3, "beta": 0.5}]


def answers(pairs, also=()):
    """One answer of each pair: the desirable one of two in five, and always where a pair's number is in `also`."""
    rows = []
    for number, row in enumerate(pairs):
        is_desirable = number % 5 < 2 or number in also
        rows.append({"prompt": row["prompt"], "completion": row["chosen" if is_desirable else "rejected"], "label": is_desirable})
    return rows


def as_messages(row):
    turns = messages({"prompt": row["prompt"], "chosen": row["completion"], "rejected": ""})
    return {"prompt": turns["prompt"], "completion": turns["chosen"], "label": row["label"]}


class Answers(Pairs):
    """Single answers, a trainer of them, and TRL's."""

    KEYS = ("loss", "grad_norm", *NUMBERS)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = answers(random_pairs(PAIRS, 3))
        cls.file = cls.write("answers.jsonl", cls.rows)

    def train(self, name, *flags, command="kto", **options):
        return super().train(name, *flags, command=command, **options)

    def trl(self, rows, **settings):
        """The steps that KTOTrainer logs."""
        trainer = KTOTrainer(
            model=AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32), train_dataset=Dataset.from_list(rows),
            processing_class=self.tokenizer,
            args=KTOConfig(output_dir=self.path("trl"), bf16=False, use_cpu=True, gradient_checkpointing=False, report_to="none",
                           save_strategy="no", logging_steps=1, disable_tqdm=True, logging_nan_inf_filter=False, dataloader_pin_memory=False,
                           **{"max_length": LENGTH, "learning_rate": 0.002, "seed": 42, **settings}))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return [line for line in trainer.state.log_history if "loss" in line]

    def expect_trl(self, ours, theirs):
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4 * max(1, abs(b["loss"])), msg=a["step"])
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3 * b["grad_norm"] + 1e-9, msg=a["step"])
            for key in NUMBERS:  # TRL has none of a kind that a step lacks
                self.assertEqual(a[key] is not None, key in b, (a["step"], key))
                if key in b:
                    self.assertAlmostEqual(a[key], b[key], delta=1e-3, msg=(a["step"], key))
            if "kl" in a:
                self.assertAlmostEqual(a["kl"], b["kl"], delta=1e-3, msg=a["step"])
            self.assertAlmostEqual(a["learning_rate"], b["learning_rate"], delta=1e-12)
            self.assertEqual(a["num_tokens"], b["num_tokens"])

    def expect_steps(self, ours, theirs):
        """KEYS of two of our runs, and what else no layout changes."""
        self.assertEqual(len(ours), STEPS)
        for a, b in zip(ours, theirs, strict=True):
            self.assertEqual("kl" in a, "kl" in b)
            for key in (*self.KEYS, *["kl"] * ("kl" in b)):
                self.assertLessEqual(abs(a[key] - b[key]), 1e-5 * max(1, abs(b[key])), (a["step"], key))
            self.assertEqual(a["num_tokens"], b["num_tokens"])


class Traces(Answers):
    def check(self, name, count, settings, rows=None):
        flags = ["--per_device_train_batch_size", str(BATCH), "--max_steps", str(count), *as_flags(settings)]
        ours = self.steps(name, *flags, data=rows and self.write(name + ".jsonl", rows))
        self.assertEqual("kl" in ours[0], settings.get("loss_type") is None)
        self.expect_trl(ours, self.trl(rows or self.rows, per_device_train_batch_size=BATCH, max_steps=count, **settings))
        return ours

    def test_traces_are_those_of_trl(self):
        for count, traces in ((20, LONG_TRACES), (5, some_of(SHORT_TRACES))):
            for number, settings in enumerate(traces):
                with self.subTest(**settings):
                    ours = self.check(f"trace-{count}-{number}", count, settings)
                    if count == 20:
                        self.assertGreater(max(step["kl"] for step in ours), 0.1)

    def test_steps_of_one_kind_and_the_last_one_of_an_epoch(self):
        """Six steps: the first has desirable answers alone, the third has two rows."""
        rows = answers(random_pairs(10, 5), also=range(BATCH))
        ours = self.check("few", 6, {}, rows)
        self.assertIsNone(ours[0]["rewards/rejected"])
        self.assertIsNone(ours[0]["rewards/margins"])

    def test_pairs(self):
        """The chosen answers of 1,000 rows stand before the rejected ones."""
        pairs = random_pairs(1003, 9)
        self.check("pairs", 3, {"loss_type": "apo_zero_unpaired", "train_sampling_strategy": "random"}, pairs)
        self.check("chat-pairs", 8, {"max_length": 96}, [messages(row) for row in pairs[:20]])
        self.expect(self.train("parted", "--max_steps", "1", "--eval_strategy", "no", "--test_split_size", "6",
                               data=self.write("parted.jsonl", pairs[:20])), 0, "documents   28,")
        self.check("no-prompt", 6, {}, [without_prompt(row) for row in pairs[20:30]])

    def test_conversations(self):
        self.check("messages", 2, {"max_length": 96}, [as_messages(row) for row in self.rows])

    def test_labels_as_numbers_and_long_prompts(self):
        long = {**self.rows[0], "prompt": " ".join(test_preferences.WORDS)}
        rows = [long, *({**row, "label": int(row["label"])} for row in self.rows[:9]), {**long, "label": False}, *self.rows[9:]]
        flags = ["--per_device_train_batch_size", str(BATCH), "--max_steps", "2"]
        ours = self.steps("dropped", *flags, data=self.write("longer.jsonl", [{**row, "label": int(row["label"])} for row in rows]))
        for a, b in zip(ours, self.steps("without", *flags), strict=True):
            self.assertEqual([a[key] for key in (*self.KEYS, "kl", "num_tokens")], [b[key] for key in (*self.KEYS, "kl", "num_tokens")])


class Layouts(Answers):
    def test_every_layout(self):
        for form, settings in enumerate([{}, *FORMS]):
            alone = self.steps(f"alone-{form}", *as_flags(settings))
            self.assertLess(alone[-1]["loss"], alone[0]["loss"])
            self.assertGreater(alone[-1]["rewards/margins"], 0.01)
            for number, (ranks, layout) in enumerate(LAYOUTS if form == 0 else [LAYOUTS[3], LAYOUTS[4]]):
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

    def test_answers_do_not_leak(self):
        """The words of one undesirable answer turned: the log-probabilities of all others, which are desirable here, keep every bit."""
        victim = next(number for number, row in enumerate(self.rows) if number > PAIRS // 3 and len(row["completion"].split()) > 3)
        steps = []
        for name, order in (("as-it-is", 1), ("turned", -1)):
            rows = [{**row, "label": True} for row in self.rows]
            rows[victim] = {**rows[victim], "completion": " " + " ".join(rows[victim]["completion"].split()[::order]), "label": False}
            steps += self.steps("leak-" + name, *LAYOUTS[3][1], "--max_steps", "1", ranks=4, data=self.write(name + ".jsonl", rows))
        self.assertEqual(steps[0]["logps/chosen"], steps[1]["logps/chosen"])
        self.assertNotEqual(steps[0]["logps/rejected"], steps[1]["logps/rejected"])

    def test_a_killed_run_goes_on_in_another_layout(self):
        def refuse():
            fewer = ["--save_steps", "1", "--per_device_train_batch_size", "6"]
            self.expect(self.train("killed", *fewer), 78, "effective batch")
            self.expect(self.train("killed", *fewer, "--allow_changed"), 66, "as many in a step")

        self.expect_to_go_on(LAYOUTS[3], LAYOUTS[0], meanwhile=refuse)


class Evaluation(Answers):
    def log_probabilities(self, folder, texts):
        """Of the answers of these prompts: both are texts."""
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        found = []
        with torch.no_grad():
            for prompt, answer in texts:
                alone, ids = (self.tokenizer(text)["input_ids"] for text in (prompt, prompt + answer + self.tokenizer.eos_token))
                begin = next((i for i, (a, b) in enumerate(zip(alone, ids)) if a != b), len(alone))
                self.assertEqual(begin, len(alone))
                ids = ids[:LENGTH]
                log_p = model(torch.tensor([ids])).logits[0, :-1].double().log_softmax(-1)
                found.append(log_p.gather(1, torch.tensor(ids[1:])[:, None])[begin - 1:].sum())
        return torch.stack(found)

    def test_evaluation(self):
        """The baseline is a mean over the whole set, whose rows are joined within as many as a step has."""
        others = answers(random_pairs(11, 8))
        file = self.write("others.jsonl", others)
        own = [(row["prompt"], row["completion"]) for row in others]
        joined = [(row["prompt"], others[number - 1]["completion"]) for number, row in enumerate(others)]
        is_desirable = torch.tensor([row["label"] for row in others])
        reference, of_joined = (self.log_probabilities(MODEL, texts) for texts in (own, joined))
        for number, (ranks, layout) in enumerate([(None, []), LAYOUTS[0], LAYOUTS[1]]):
            with self.subTest(layout=layout):
                name = f"evaluated-{number}"
                self.steps(name, "--eval_dataset_name", file, "--eval_strategy", "steps", "--eval_steps", str(STEPS),
                           "--per_device_eval_batch_size", "4", *layout, ranks=ranks)
                last, = [line for line in read_metrics(self.path(name)) if "eval_loss" in line]
                ours = self.log_probabilities(self.path(name), own)
                baseline = (self.log_probabilities(self.path(name), joined) - of_joined).mean().clamp(min=0)
                ratios = ours - reference
                losses = 1 - torch.sigmoid(torch.where(is_desirable, 1, -1) * 0.1 * (ratios - baseline))
                chosen, rejected = 0.1 * ratios[is_desirable].mean(), 0.1 * ratios[~is_desirable].mean()
                for key, expected in (("loss", losses.mean()), ("kl", baseline), ("rewards/chosen", chosen), ("rewards/rejected", rejected),
                                      ("rewards/margins", chosen - rejected), ("logps/chosen", ours[is_desirable].mean()),
                                      ("logps/rejected", ours[~is_desirable].mean())):
                    self.assertAlmostEqual(last["eval_" + key], expected.item(), delta=2e-5 + 2e-6 * abs(expected.item()), msg=key)


class BadInput(Answers):
    def refuse(self, code, says, *flags, rows=None, **options):
        with self.subTest(flags=flags, says=says):
            data = rows and self.write("bad.jsonl", rows)
            self.expect(self.train("refused", *flags, data=data, **options), code, *says)

    def test_rows_that_are_no_answers(self):
        full = self.rows[0]
        for column in ("prompt", "completion", "label"):
            less = {key: value for key, value in full.items() if key != column}
            self.refuse(65, [column], rows=[less] * 4)
            self.refuse(65, [column], rows=[full, less, full])
        for label in ("true", 2, None, 0.5):
            self.refuse(65, ["label"], rows=[full, {**full, "label": label}])
        pairs = random_pairs(4, 1)
        self.refuse(65, ["no columns chosen and rejected"], rows=[*pairs, {"prompt": "a", "chosen": "b"}])
        mixed = json.dumps([{"path": self.write("pairs.jsonl", pairs)}, {"path": self.file}])
        self.expect(run("kto", "--model_name_or_path", MODEL, "--datasets", mixed, "--bf16", "false", "--output_dir", self.path("mixed")), 65,
                    "some are pairs")
        self.refuse(65, ["same answer"], rows=[*pairs, {"prompt": "a", "chosen": "b", "rejected": "b"}])
        self.refuse(65, ["chosen is text and rejected is a list"], rows=[*pairs, {"prompt": "a", "chosen": "b", "rejected": []}])

    def test_settings_that_do_not_go_together(self):
        self.refuse(78, ["loss_type"], "--loss_type", "sigmoid")
        self.refuse(78, ["loss_type"], "--loss_type", "kto", command="dpo")
        self.refuse(78, ["train_sampling_strategy"], "--train_sampling_strategy", "random")
        self.refuse(78, ["per_device_train_batch_size"], "--per_device_train_batch_size", "1")
        self.refuse(78, ["desirable_weight"], "--desirable_weight", "-1")
        self.refuse(78, ["desirable_weight"], "--desirable_weight", "2", command="dpo")
        self.refuse(78, ["rpo_alpha"], "--rpo_alpha", "1")
        self.refuse(78, ["label_smoothing"], "--label_smoothing", "0.1")
        self.refuse(78, ["packing"], "--packing")
        self.refuse(78, ["truncation_mode"], "--truncation_mode", "keep_end")

    def test_the_defaults_are_those_of_trl(self):
        common = ["--model_name_or_path", MODEL, "--dataset_name", self.file, "--bf16", "false", "--max_length", "48", "--logging_steps", "1",
                  "--max_steps", "2", "--data_cache_dir", self.path("cache")]
        spelled = {"loss_type": "kto", "beta": 0.1, "desirable_weight": 1.0, "undesirable_weight": 1.0, "learning_rate": 1e-6}
        self.expect(run("train", "--method", "kto", *common, "--output_dir", self.path("plain")), 0)
        self.expect(run("kto", *common, *as_flags(spelled), "--output_dir", self.path("spelled")), 0)
        plain, steps = (read_steps(self.path(name)) for name in ("plain", "spelled"))
        self.assertEqual(plain[0]["learning_rate"], 1e-6)
        for a, b in zip(plain, steps, strict=True):
            for key in (*self.KEYS, "kl", "learning_rate"):
                self.assertEqual(a[key], b[key], key)
        with open(self.path("plain", "README.md")) as file:
            self.assertIn("Kahneman-Tversky", file.read())


if __name__ == "__main__":
    unittest.main()

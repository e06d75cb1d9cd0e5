"""What of a conversation is learned: `trainer prepare` against axolotl's masks (generator/message_loss.py), turn by turn, and the
rules that are ours."""

import gzip
import json
import os
import pathlib
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "cli"))
from trainer import TrainerTest, run  # noqa: E402

DATA = FOLDER / "data"
TOKENIZERS = DATA / "text" / "data" / "tokenizers"
ROWS = DATA / "messages" / "rows.jsonl.gz"
CHAT = [{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three four"},
        {"role": "user", "content": "five"}, {"role": "assistant", "content": "six seven"}]


def learned_ranges(labels):
    found = []
    for i, label in enumerate(labels):
        if label == -100:
            continue
        if found and found[-1][1] == i:
            found[-1][1] = i + 1
        else:
            found.append([i, i + 1])
    return found


class MessageLoss(TrainerTest):
    def prepare(self, data, *flags, tokenizer="chatml", fails=0, says=()):
        with tempfile.TemporaryDirectory() as cache:
            result = run("prepare", "--model_name_or_path", str(TOKENIZERS / tokenizer), "--dataset_name", str(data),
                         "--max_length", "null", "--data_cache_dir", cache, *flags)
            self.expect(result, fails, *says)
            if fails:
                return None
            self.stderr = result.stderr
            plan = result.stdout.splitlines()[0].split(": ", 1)[1]
            shown = run("inspect", plan, "--rows", "100000", "--json")
            self.expect(shown, 0)
            return [json.loads(line) for line in shown.stdout.splitlines()]

    def of_rows(self, rows, *flags, **more):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.jsonl"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            return self.prepare(file, *flags, **more)

    # The texts that are learned of the one row.
    def learned(self, row, *flags, **more):
        made = self.of_rows([row], *flags, **more)[0]
        ids = [made["input_ids"][begin:end] for begin, end in learned_ranges(made["labels"])]
        lines = "".join(json.dumps({"ids": some}) + "\n" for some in ids)
        result = run("tokenize", "--model_name_or_path", str(TOKENIZERS / more.get("tokenizer", "chatml")), stdin=lines)
        self.expect(result, 0)
        return [json.loads(line)["decoded"] for line in result.stdout.splitlines()]

    def test_turns_are_those_of_axolotl(self):
        with gzip.open(DATA / "messages" / "learned.json.gz") as file:
            expected = json.load(file)
        for tokenizer, kinds in expected.items():
            for kind, flags in (("all", []), ("last", ["--train_on_last_turn_only", "true"])):
                rows = self.prepare(ROWS, "--roles_to_train", "assistant", *flags, tokenizer=tokenizer)
                self.assertEqual(len(rows), 200)
                for number, (row, spans) in enumerate(zip(rows, kinds[kind], strict=True)):
                    self.assertEqual(learned_ranges(row["labels"]), spans, (tokenizer, kind, number, row["text"]))

    def test_marks_of_messages(self):
        marked = [dict(message) for message in CHAT]
        marked[1]["train"] = False
        end = "<|im_end|>"
        for keys in ({"train": False}, {"training": False}, {"loss_mask": 0}, {"weight": 0}):
            row = {"messages": [CHAT[0], dict(CHAT[1], **keys), *CHAT[2:]]}
            with self.subTest(keys=keys):
                self.assertEqual(self.learned(row, "--roles_to_train", "assistant"), ["six seven" + end])
                # Generation marks of the template, and what each answer adds to the rendering where it has none.
                self.assertEqual(self.learned(row, "--assistant_only_loss", "true", tokenizer="generation"), ["six seven" + end])
                self.assertEqual(self.learned(row, "--assistant_only_loss", "true"), ["six seven" + end + "\n"])
                whole = self.learned(row)
                self.assertEqual(len(whole), 2)
                self.assertTrue(whole[0].endswith("<|im_start|>assistant\n"), whole)
                self.assertTrue(whole[1].startswith("\n<|im_start|>user\nfive"), whole)
        row = {"messages": [dict(CHAT[0], train=True), *CHAT[1:]]}
        self.assertEqual(self.learned(row, "--assistant_only_loss", "true", tokenizer="generation"),
                         ["one two" + end, "three four" + end, "six seven" + end])
        for flag in ("--assistant_only_loss", "--train_on_last_turn_only"):
            self.assertEqual(self.learned({"messages": CHAT}, flag, "true", "--train_on_last_turn_only", "true",
                                          tokenizer="generation"), ["six seven" + end])

    def test_completions_alone_are_learned_whatever_the_prompt_says(self):
        row = {"prompt": [dict(CHAT[0], train=True)], "completion": [CHAT[1], CHAT[2], dict(CHAT[3], train=False)]}
        learned = "".join(self.learned(row))
        self.assertNotIn("one two", learned)
        self.assertIn("three four", learned)
        self.assertNotIn("six seven", learned)

    def test_reasoning(self):
        end = "<|im_end|>"
        answer = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nsix"}
        row = {"messages": [CHAT[0], answer]}
        self.assertEqual(self.learned(row, "--roles_to_train", "assistant", "--mask_reasoning", "true"), ["\n\nsix" + end])
        self.assertEqual(self.learned(row, "--roles_to_train", "assistant", "--mask_reasoning", "false"),
                         [answer["content"] + end])
        self.assertEqual(self.learned(row, "--roles_to_train", "assistant", "--mask_reasoning", "empty"), [answer["content"] + end])
        empty = {"messages": [CHAT[0], {"role": "assistant", "content": "<think>\n\n</think>\n\nsix"}]}
        self.assertEqual(self.learned(empty, "--roles_to_train", "assistant", "--mask_reasoning", "empty"), ["six" + end])
        other = {"messages": [CHAT[0], {"role": "assistant", "content": "{{hm}}six {{hm}}"}]}
        self.assertEqual("".join(self.learned(other, "--roles_to_train", "assistant", "--mask_reasoning", "{{", "}}")), "six" + end)
        # The template begins the answer with the mark: it stands before the message's own words.
        kept = {"role": "assistant", "reasoning_content": "hm", "content": "six"}
        for base in (["--roles_to_train", "assistant"], ["--assistant_only_loss", "true"]):
            texts = self.learned({"messages": [CHAT[0], kept]}, *base, "--mask_reasoning", "true", tokenizer="qwen3ish")
            self.assertNotIn("hm", "".join(texts))
            self.assertNotIn("think", "".join(texts))
            self.assertIn("six" + end, "".join(texts))
        texts = self.learned({"prompt": "a <think>b</think> c", "completion": " d <think>e</think> f"}, "--mask_reasoning", "true")
        self.assertNotIn("e", "".join(texts).replace("<|im_end|>", ""))
        self.assertIn("f", "".join(texts))
        self.of_rows([{"messages": CHAT}], "--mask_reasoning", "true")
        self.assertIn("mask_reasoning: no row has reasoning that is learned between <think> and </think>", self.stderr)

    def test_rows_that_are_wrong(self):
        def chat(**keys):
            return {"messages": [CHAT[0], dict(CHAT[1], **keys)]}
        for row, says in ((chat(train="yes"), "message 2: train is text, where true or false (or 1 or 0) is needed"),
                          (chat(loss_mask=2), "message 2: loss_mask is a number"),
                          (chat(train=True, loss_mask=0), "message 2: train and loss_mask contradict each other"),
                          (chat(weight=-1), "message 2: weight is -1, and a weight is finite and not below 0"),
                          (chat(weight="1"), "message 2: weight is text, where a number is needed"),
                          ({"messages": [dict(m, weight=0) for m in CHAT]}, "no token of this conversation is learned"),
                          ({"text": "a", "weight": -2}, "weight is -2, and a weight is finite and not below 0"),
                          ({"text": "a", "weight": [1]}, "weight is a list, where a number is needed"),
                          ({"text": "a", "weight": 0}, "no sample has anything left to learn")):
            with self.subTest(row=row):
                self.of_rows([row], "--max_length", "64", fails=65, says=["rows.jsonl", says])

    def test_settings_that_are_wrong(self):
        self.of_rows([{"messages": CHAT}], "--roles_to_train", "assistant", "--assistant_only_loss", "true", fails=78,
                     says=["both say whose messages are learned"])
        self.of_rows([{"messages": CHAT}], "--mask_reasoning", "<think>", fails=78, says=["mask_reasoning", "two marks"])
        self.of_rows([{"text": "a"}], "--roles_to_train", "assistant", fails=65, says=["roles_to_train is for conversations"])
        self.of_rows([{"input_ids": [1, 2]}], "--mask_reasoning", "true", fails=65, says=["mask_reasoning is for conversations"])


if __name__ == "__main__":
    unittest.main()

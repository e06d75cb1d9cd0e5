"""`--loss_scale` and `--agent_template`: what is learned of answers, and how tools are written, as ms-swift has it.

ms_swift.json.gz holds what the code of ms-swift 3602360 makes of answers (the weights of their parts, under ten rules) and of conversations
with tools (the text and its learned parts, under a ChatML template).
"""

import contextlib
import gzip
import json
import os
import sys
import unittest

from preparing import HERE, MODEL, PrepareTest, run

try:
    with contextlib.redirect_stderr(open(os.devnull, "w")):
        from transformers import AutoTokenizer
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs it")
    sys.exit(77)

GOLDEN = json.loads(gzip.decompress((HERE / "ms_swift.json.gz").read_bytes()))
TOKENIZER = AutoTokenizer.from_pretrained(MODEL)
CHATML = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"


def weights_of(text, runs):
    """The tokens of a text, and the weight of the run of characters in which each begins."""
    encoded = TOKENIZER(text, add_special_tokens=False, return_offsets_mapping=True)
    by_character = [weight for length, weight in runs for _ in range(length)]
    assert len(by_character) == len(text)
    return encoded["input_ids"], [by_character[begin] for begin, _ in encoded["offset_mapping"]]


def made(row):
    weights = row.get("weights") or [1] * len(row["input_ids"])
    return row["input_ids"], [0 if label == -100 else weight for label, weight in zip(row["labels"], weights, strict=True)]


class MsSwift(PrepareTest):
    def test_weights_of_answers(self):
        rows = [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}]} for answer in GOLDEN["answers"]]
        data = self.write("answers.jsonl", rows)
        before = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
        for number, rule in enumerate(GOLDEN["rules"]):
            with self.subTest(rule):
                shown = self.rows(self.prepare("--dataset_name", data, "--chat_template", CHATML, "--loss_scale", rule))
                self.assertEqual(len(shown), len(rows))
                for of_rule, of_answer, runs in GOLDEN["scales"]:
                    if of_rule != number:
                        continue
                    answer = GOLDEN["answers"][of_answer]
                    text = before + answer + "<|im_end|>\n"
                    wanted = weights_of(text, [[len(before), 0], *runs, [len("<|im_end|>"), 1], [1, 0]])
                    self.assertEqual(made(shown[of_answer]), (wanted[0], wanted[1]), (rule, answer))

    def test_tools(self):
        for form in ("hermes", "react_en"):
            cases = [case for case in GOLDEN["agents"] if case[0] == form]
            self.assertEqual(len(cases), 12)
            rows = [{"messages": messages} | ({"tools": tools} if tools else {}) for _, messages, tools, _ in cases]
            prepared = self.prepare("--dataset_name", self.write(f"{form}.jsonl", rows), "--chat_template", CHATML, "--agent_template", form,
                                    "--loss_scale", "default", "--max_length", "4096")
            for row, (_, messages, _, parts) in zip(self.rows(prepared), cases, strict=True):
                text = "".join(part for part, _ in parts)
                wanted = weights_of(text, [[len(part), learned] for part, learned in parts])
                self.assertEqual(TOKENIZER.decode(row["input_ids"]), text)
                self.assertEqual(made(row), wanted, messages)

    def test_default_system(self):
        """Tools stand behind the system text that the chat template has by default, and behind a row's own."""
        template = "{% if messages[0].role != 'system' %}<|im_start|>system\nBe good.<|im_end|>\n{% endif %}" + CHATML
        tools = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}]
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        rows = [{"messages": messages, "tools": tools} for messages in (turns, [{"role": "system", "content": "Own."}, *turns])]
        shown = self.rows(self.prepare("--dataset_name", self.write("default.jsonl", rows), "--chat_template", template,
                                       "--agent_template", "hermes", "--max_length", "4096"))
        for row, system in zip(shown, ("Be good.", "Own."), strict=True):
            self.assertTrue(TOKENIZER.decode(row["input_ids"]).startswith(f"<|im_start|>system\n{system}\n\n# Tools\n"))

    def test_bases(self):
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
                 {"role": "assistant", "content": "<think>\n\n</think>\n\nd"}]
        data = self.write("turns.jsonl", [{"messages": turns}])
        def learned(*flags):
            row, = self.rows(self.prepare("--dataset_name", data, "--chat_template", CHATML, *flags))
            return TOKENIZER.decode([token for token, label in zip(row["input_ids"], row["labels"], strict=True) if label != -100])
        self.assertEqual(learned("--loss_scale", "default"), "b<|im_end|><think>\n\n</think>\n\nd<|im_end|>")
        self.assertEqual(learned("--loss_scale", "ignore_empty_think"), "b<|im_end|>d<|im_end|>")
        self.assertEqual(learned("--loss_scale", "last_round+ignore_empty_think"), "d<|im_end|>")
        self.assertTrue(learned("--loss_scale", "all+ignore_empty_think").startswith("<|im_start|>user\na<|im_end|>"))
        self.assertNotIn("<think>", learned("--loss_scale", "all+ignore_empty_think"))

    def test_what_is_refused(self):
        for flags, words in ((("--loss_scale", "default+nothing"), "nothing is no rule"), (("--loss_scale", "hermes+"), "+ is no rule"),
                             (("--loss_scale", "all", "--assistant_only_loss", "true"), "contradict each other"),
                             (("--agent_template", "glm4"), "must be hermes or react_en")):
            self.expect_one_message(run("config", *flags), 78, words)
        for flags in (("--loss_scale", "all+hermes"), ("--agent_template", "hermes")):
            for name, row in (("text", {"text": "a"}), ("ids", {"input_ids": [1]}), ("segments", {"segments": [{"text": "a", "label": True}]})):
                data = self.write(f"{name}.jsonl", [row])
                self.expect_one_message(self.prepare("--dataset_name", data, *flags), 65, f"{flags[0][2:]} is for conversations")
        for number, messages in enumerate(([{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}],
                                           [{"role": "user", "content": "a"}, {"role": "tool_call", "content": "no JSON"}])):
            data = self.write(f"wrong{number}.jsonl", [{"messages": messages}])
            self.expect_one_message(self.prepare("--dataset_name", data, "--chat_template", CHATML, "--agent_template", "hermes"), 65,
                                    "agent_template: ")


if __name__ == "__main__":
    unittest.main()

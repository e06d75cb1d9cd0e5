#!/usr/bin/env python3
"""Writes rows of layouts that people have beside TRL's, and what SFTTrainer makes of them after `datasets`' map().

  .deps/venv/bin/python tests/parity/generator/layouts.py        writes tests/parity/data/layouts
"""

import csv
import json
import pathlib
import tempfile

import datasets
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
from trl import SFTConfig, SFTTrainer

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
INTO = DATA / "layouts"

TASKS = [
    ("Name three colours.", "", "Red, green and blue."),
    ("Add the numbers.", "2, 3\nand 7", "12"),
    ("Translate into German.", "good \"morning\", friend", "guten Morgen, Freund\n"),
    ("Say nothing", "", "Well."),
]
# The prompts of Stanford's Alpaca (github.com/tatsu-lab/stanford_alpaca), with a line break before the response.
WITH_INPUT = ("Below is an instruction that describes a task, paired with an input that provides further context. "
              "Write a response that appropriately completes the request.\n\n### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n")
WITHOUT_INPUT = ("Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
                 "### Instruction:\n{instruction}\n\n### Response:\n")


def alpaca_text(row):
    template = WITH_INPUT if row["input"] else WITHOUT_INPUT
    return {"prompt": template.format(**row), "completion": row["output"]}


def alpaca_chat(row):
    asked = row["instruction"] + ("\n" + row["input"] if row["input"] else "")
    return {"prompt": [{"role": "user", "content": asked}], "completion": [{"role": "assistant", "content": row["output"]}]}


def share_gpt(row):
    roles = {"human": "user", "gpt": "assistant", "system": "system"}
    return {"messages": [{"role": roles[turn["from"]], "content": turn["value"]} for turn in row["conversations"]]}


def rename(**names):
    return lambda row: {ours: row[theirs] or "" for ours, theirs in names.items()}


ALPACA = [dict(zip(("instruction", "input", "output", "id"), (*task, number))) for number, task in enumerate(TASKS)]
DOLLY = [{"instruction": i, "context": c, "response": o, "category": "qa"} for i, c, o in TASKS]
QA = [{"question": i, "answer": o, "source": {"url": "x"}} for i, _, o in TASKS]
SHARE_GPT = [{"id": n, "conversations": [{"from": "system", "value": "Be brief."}] * (n % 2) + [{"from": "human", "value": i}, {"from": "gpt", "value": o}]}
             for n, (i, _, o) in enumerate(TASKS)]
TEXTS = [{"body": f"{i} {o}", "lang": "en"} for i, _, o in TASKS]


def chain(*steps):
    def apply(row):
        for step in steps:
            row = step(row)
        return row
    return apply


to_alpaca = rename(instruction="instruction", input="context", output="response")
# name, rows, ending, tokenizer, what map() does, settings of a mixture's entry
LAYOUTS = [
    ("alpaca_chat", ALPACA, "jsonl", "models/qwen2-tiny", alpaca_chat, {}),
    ("alpaca_text", ALPACA, "jsonl", "plain", alpaca_text, {}),
    ("alpaca_csv", ALPACA, "csv", "models/qwen2-tiny", alpaca_chat, {}),
    ("dolly_text", DOLLY, "jsonl", "plain", chain(to_alpaca, alpaca_text),
     {"column_map": {"input": "context", "output": "response"}}),
    ("dolly_chat_csv", DOLLY, "csv", "models/qwen2-tiny", chain(to_alpaca, alpaca_chat), {"column_map": {"input": "context", "output": "response"}}),
    ("questions", QA, "jsonl", "models/qwen2-tiny", rename(prompt="question", completion="answer"),
     {"column_map": {"prompt": "question", "completion": "answer"}}),
    ("share_gpt", SHARE_GPT, "jsonl", "models/qwen2-tiny", share_gpt,
     {"column_map": {"messages": "conversations"}, "role_key": "from", "content_key": "value", "roles": {"user": "human", "assistant": "gpt"}}),
    ("share_gpt_tags", SHARE_GPT, "jsonl", "models/qwen2-tiny", share_gpt,
     {"tags": {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt", "system_tag": "system"}}),
    ("body", TEXTS, "jsonl", "models/qwen2-tiny", rename(text="body"), {"column_map": {"text": "body"}}),
]


def main():
    INTO.mkdir(exist_ok=True)
    cases = []
    temporary = tempfile.mkdtemp()
    for name, rows, ending, tokenizer, change, settings in LAYOUTS:
        file = INTO / f"{name}.{ending}"
        if ending == "csv":
            with open(file, "w", newline="") as out:
                writer = csv.DictWriter(out, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        loaded = datasets.load_dataset("json" if ending == "jsonl" else "csv", data_files=str(file), split="train", cache_dir=temporary + "/cache")
        mapped = loaded.map(change, remove_columns=loaded.column_names)
        # "plain": a tokenizer without a chat template.
        tok = AutoTokenizer.from_pretrained(DATA / ("models/qwen2-tiny" if tokenizer == "plain" else tokenizer))
        if tokenizer == "plain":
            tok.chat_template = None
        config = Qwen2Config(vocab_size=len(tok), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1)
        trainer = SFTTrainer(model=Qwen2ForCausalLM(config), train_dataset=mapped, processing_class=tok,
                             args=SFTConfig(output_dir=temporary + "/out", report_to="none", use_cpu=True, bf16=False, max_length=512))
        expected = [{"input_ids": row["input_ids"], "labels": row["labels"]} if "labels" in row else
                    {"input_ids": row["input_ids"],
                     "labels": [i if m else -100 for i, m in zip(row["input_ids"], row.get("completion_mask", [1] * len(row["input_ids"])))]}
                    for row in trainer.train_dataset]
        cases.append({"name": name, "file": file.name, "tokenizer": tokenizer, "settings": settings, "rows": expected})
        print(name, len(expected), trainer.train_dataset.column_names, flush=True)
    (INTO / "cases.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()

"""What of a conversation is learned, by axolotl's chat_template strategy.

    pip install --no-deps axolotl==0.19.0 addict colorama
    python message_loss.py --out tests/parity/data

Writes messages/rows.jsonl.gz, conversations made at random with `train` in some of their messages, and messages/learned.json.gz:
for each tokenizer of text/data/tokenizers, and for each row, the ranges of tokens that axolotl learns with
message_field_training: train, train_on_inputs: false, roles_to_train: [assistant], train_on_eos: turn. "last" is the same where all
turns but the last one that is learned are marked `train: false`.
"""
import argparse
import copy
import gzip
import json
import random
from pathlib import Path

from axolotl.prompt_strategies.chat_template import ChatTemplatePrompter, ChatTemplateStrategy
from transformers import AutoTokenizer

ROWS, TOKENIZERS = 200, ("chatml", "generation", "llama3", "qwen3ish")
WORDS = ("the sum of two numbers is never more than 9 , so we write [ it ] down and zzz stop . naïve café 日本語 😀 {x} "
         "return f(x) == 0 ; # note **bold** 3.14 \t tab").split(" ")


def text(chance):
    words = [chance.choice(WORDS) for _ in range(chance.randint(1, 12))]
    made = chance.choice(("", "", "", " ", "\n", "[[", "zz")) + chance.choice((" ", " ", "\n")).join(words)
    return made + chance.choice(("", "", "", " ", "\n\n", "]", "z", "."))


def message(chance, role):
    made = {"role": role, "content": text(chance)}
    if role == "assistant" and chance.random() < 0.08:
        made["content"] = ""
    if role == "assistant" and chance.random() < 0.15:
        made["reasoning_content"] = text(chance)
    elif role == "assistant" and chance.random() < 0.15:
        made["content"] = f"<think>\n{text(chance)}\n</think>\n\n{text(chance)}"
    if role == "assistant" and chance.random() < 0.1:
        made["tool_calls"] = [{"type": "function", "function": {"name": "find", "arguments": {"what": text(chance)}}}]
    if chance.random() < 0.3:
        made["train"] = chance.random() < 0.5
    return made


def conversation(chance):
    roles = ["system"] if chance.random() < 0.4 else []
    for _ in range(chance.randint(1, 4)):
        roles += ["user", "assistant"]
        if chance.random() < 0.1:
            roles += ["tool", "assistant"]
    return [message(chance, role) for role in roles]


def ranges(labels):
    found = []
    for i, label in enumerate(labels):
        if label == -100:
            continue
        if found and found[-1][1] == i:
            found[-1][1] = i + 1
        else:
            found.append([i, i + 1])
    return found


def strategy(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompter = ChatTemplatePrompter(tokenizer, tokenizer.chat_template, message_field_training="train", max_length=1 << 20)
    return ChatTemplateStrategy(prompter, tokenizer, train_on_inputs=False, sequence_len=1 << 20, roles_to_train=["assistant"],
                                train_on_eos="turn")


def learned(strategy, messages):
    return ranges(strategy.tokenize_prompt({"messages": copy.deepcopy(messages)})["labels"])


def only_last(messages):
    is_learned = [m.get("train", m["role"] == "assistant") for m in messages]
    last = max(i for i, chosen in enumerate(is_learned) if chosen)
    return [dict(m, train=m.get("train", is_learned[i]) if i == last else False) for i, m in enumerate(messages)]


def write(file, content):
    with open(file, "wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
        packed.write(content.encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = Path(parser.parse_args().out)
    strategies = {name: strategy(out / "text" / "data" / "tokenizers" / name) for name in TOKENIZERS}
    chance = random.Random(11)
    rows, all_learned = [], {name: {"all": [], "last": []} for name in TOKENIZERS}
    while len(rows) < ROWS:
        messages = conversation(chance)
        if not any(m.get("train", m["role"] == "assistant") for m in messages):
            continue
        found = {name: {"all": learned(s, messages), "last": learned(s, only_last(messages))} for name, s in strategies.items()}
        if not all(each["all"] and each["last"] for each in found.values()):
            continue  # such a row is refused
        rows.append({"messages": messages})
        for name, each in found.items():
            for kind, spans in each.items():
                all_learned[name][kind].append(spans)
    (out / "messages").mkdir(exist_ok=True)
    write(out / "messages" / "rows.jsonl.gz", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    write(out / "messages" / "learned.json.gz", json.dumps(all_learned, separators=(",", ":")))

"""What of a conversation SFTTrainer learns with assistant_only_loss under the stock templates that TRL knows by their text.

    python training_templates.py --out tests/parity/data

Writes training_templates/rows.jsonl, conversations with and without reasoning, tools and a system's message, and
training_templates/learned.json.gz: for each template of TRL's that has a training template, and for each row, a hash of its tokens and
the ranges that are learned; null where TRL refuses the row. The tokenizer is text/data/tokenizers/chatml with that template.
"""
import argparse
import gzip
import json
import logging
import zlib
from pathlib import Path

import trl
from transformers import AutoTokenizer
from trl.chat_template_utils import get_training_chat_template
from trl.data_utils import _tokenize, common_prefix_length

logging.getLogger("transformers").setLevel(logging.ERROR)
TEMPLATES = Path(trl.__file__).parent / "chat_templates"
NEED_PARTS = ("idefics3", "llava_next", "smolvlm")  # templates that take lists of parts alone
CALL = [{"type": "function", "function": {"name": "find", "arguments": {"what": "a ring", "count": 2}}}]
TEXT_CALL = [{"type": "function", "function": {"name": "find", "arguments": '{"what": "a ring"}'}}]
TOOLS = [{"type": "function", "function": {"name": "find", "description": "Finds things.", "parameters": {
    "type": "object", "properties": {"what": {"type": "string"}, "count": {"type": "integer"}}, "required": ["what"]}}}]


def says(role, content, **more):
    return {"role": role, "content": content, **more}


USER, AGAIN = says("user", "What is two and two?"), says("user", " And five?\n")
ROWS = [
    {"messages": [USER, says("assistant", "Four.")]},
    {"messages": [says("system", "Be brief."), USER, says("assistant", "Four.")]},
    {"messages": [USER, says("assistant", " Four.\n"), AGAIN, says("assistant", "Seven, naïve 日本語.")]},
    {"messages": [says("system", "Be brief."), USER, says("assistant", "Four."), AGAIN, says("assistant", "Seven."), USER,
                  says("assistant", "Four, as before.")]},
    {"messages": [USER, says("assistant", "<think>\ntwo more\n</think>\n\nFour."), AGAIN,
                  says("assistant", "<think>\nthree more\n</think>\n\nSeven.")]},
    {"messages": [USER, says("assistant", "Four.", reasoning_content="two more"), AGAIN,
                  says("assistant", "Seven.", reasoning_content="three more")]},
    {"messages": [USER, says("assistant", "Four.", thinking="two more"), AGAIN, says("assistant", "Seven.", thinking="three more")]},
    {"messages": [USER, says("assistant", "", tool_calls=CALL), says("tool", "a ring of gold", name="find"),
                  says("assistant", "It is of gold."), AGAIN, says("assistant", "Seven.")], "tools": TOOLS},
    {"messages": [says("system", "Be brief."), USER, says("assistant", "I look.", tool_calls=CALL + CALL),
                  says("tool", "a ring", name="find"), says("tool", "a box", name="find"), says("assistant", "Two things.")],
     "tools": TOOLS},
    {"messages": [USER, says("assistant", None, tool_calls=TEXT_CALL), says("tool", "a ring", name="find")]},
    {"messages": [USER, says("assistant", "Four."), says("system", "Be brief."), AGAIN, says("assistant", "Seven.")]},
    {"messages": [USER, says("assistant", "Four."), AGAIN]},
    {"messages": [USER, says("assistant", ""), AGAIN, says("assistant", "Seven.")]},
    {"prompt": [USER, says("assistant", "Four."), AGAIN], "completion": [says("assistant", "Seven.")]},
    {"prompt": [says("system", "Be brief."), USER],
     "completion": [says("assistant", "Four."), AGAIN, says("assistant", "Seven.", reasoning_content="three more")]},
]


def in_parts(messages):
    return [dict(m, content=[{"type": "text", "text": m["content"]}]) if isinstance(m["content"], str) else m for m in messages]


def row_of(row, name):
    """The row with lists of parts in the place of texts, for a template that needs them."""
    if name not in NEED_PARTS:
        return row
    return {key: value if key == "tools" else in_parts(value) for key, value in row.items()}


def learned(tokenizer, template, row):
    """As SFTTrainer prepares a row: None if it refuses the row."""
    arguments = {"chat_template": template, "tools": row.get("tools")}
    try:
        if "prompt" in row:
            prompt = _tokenize(tokenizer, row["prompt"], add_generation_prompt=True, **arguments)["input_ids"]
        both = _tokenize(tokenizer, row.get("messages") or row["prompt"] + row["completion"], return_assistant_tokens_mask=True,
                         **arguments)
    except Exception:  # whatever a template raises
        return None
    ids, mask = both["input_ids"], both["assistant_masks"]
    if 1 not in mask:
        return None
    first = common_prefix_length(prompt, ids) if "prompt" in row else 0
    ranges = []
    for i, bit in enumerate(mask):
        if bit == 0 or i < first:
            continue
        if ranges and ranges[-1][1] == i:
            ranges[-1][1] = i + 1
        else:
            ranges.append([i, i + 1])
    return [zlib.crc32(json.dumps(ids).encode()), ranges]


def learned_of_rows(tokenizers, name):
    """What of each row is learned under the template of this name. tokenizers: the folder of text/data."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizers / "tokenizers" / "chatml")
    tokenizer.chat_template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    template = get_training_chat_template(tokenizer)
    return [learned(tokenizer, template, row_of(row, name)) for row in ROWS]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = Path(parser.parse_args().out)
    found = {}
    for file in sorted(TEMPLATES.glob("*_training.jinja")):
        name = file.stem.removesuffix("_training")
        found[name] = learned_of_rows(out / "text" / "data", name)
        print(name, sum(each is not None for each in found[name]), "rows")
    folder = out / "training_templates"
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS), encoding="utf-8")
    with open(folder / "learned.json.gz", "wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
        packed.write(json.dumps(found, separators=(",", ":")).encode())

#!/usr/bin/env python3
"""Writes the goldens of slices of splits, of mixtures, and of tables and text: what `datasets` makes of them. Quick: seconds.

  .deps/venv/bin/python tests/parity/generator/mixtures.py       writes tests/parity/data/mixtures/*.json.gz
"""

import gzip
import json
import pathlib
import random
import tempfile

from datasets import Dataset, interleave_datasets, load_dataset
from datasets.arrow_reader import ReadInstruction

INTO = pathlib.Path(__file__).resolve().parent.parent / "data" / "mixtures"


def write(name, content):
    INTO.mkdir(parents=True, exist_ok=True)
    with open(INTO / f"{name}.json.gz", "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
        file.write(json.dumps(content).encode())


def random_bound(draw, rows, is_percent):
    if draw.random() < 0.25:
        return ""
    if is_percent:
        return f"{draw.randint(-100, 100)}%"
    number = draw.randint(-rows - 20, rows + 20)
    return f"{number:_}" if draw.random() < 0.1 else str(number)


def random_slice(draw, split, rows):
    kind = draw.random()
    if kind < 0.1:
        return split
    is_percent = kind < 0.6
    start, end = random_bound(draw, rows, is_percent), random_bound(draw, rows, is_percent)
    text = f"{split}[{start}:{end}]"
    if is_percent and (start or end) and draw.random() < 0.4:
        text += draw.choice(["(closest)", "(pct1_dropremainder)"])
    return text


def slices():
    draw = random.Random(7)
    cases = []
    for _ in range(500):
        sizes = {name: draw.choice([1, 7, 99, 100, 101, 150, 1234, 100_000, 123_456_789]) for name in ("train", "test", "a.b")}
        names = draw.choices(list(sizes), k=draw.choice([1, 1, 1, 2, 3]))
        text = draw.choice(["+", " + "]).join(random_slice(draw, name, sizes[name]) for name in names)
        try:
            rows = [[part.splitname, part.from_, part.to] for part in ReadInstruction.from_spec(text).to_absolute(sizes)]
        except ValueError:
            rows = None
        cases.append({"text": text, "sizes": sizes, "rows": rows})
    malformed = ["train[", "train[:]x", "train[5]", "train[:101%]", "train[a:]", "train[:5](closest)", "train[:5%](up)", "", "+train",
                 "train[1__0:]", "tr ain", "train[:-101%]"]
    for text in malformed:
        try:
            ReadInstruction.from_spec(text).to_absolute({"train": 200})
            raise SystemExit(f"datasets takes {text!r}")
        except (ValueError, AssertionError):
            pass
    write("slices", {"cases": cases, "malformed": malformed})


def mixtures():
    draw = random.Random(11)
    cases = []
    for number in range(40):
        sizes = [draw.choice([1, 2, 3, 10, 57, 150]) for _ in range(draw.randint(1, 4))]
        weights = [draw.choice([0.1, 0.25, 1.0, 3.0, 0.7]) for _ in sizes]
        probabilities = [weight / sum(weights) for weight in weights]
        offset, parts = 0, []
        for size in sizes:
            parts.append(Dataset.from_dict({"n": range(offset, offset + size)}))
            offset += size
        for strategy in ("first_exhausted", "all_exhausted"):
            mixed = interleave_datasets(parts, probabilities=probabilities, seed=number, stopping_strategy=strategy)
            cases.append({"sizes": sizes, "weights": weights, "seed": number, "strategy": strategy, "samples": mixed["n"][:]})
    write("interleaved", cases)


# Text of tables, for which `datasets` and this program give the same rows.
TABLES = [
    'text,n\none,1\ntwo,2\n',
    '\ufefftext,n\r\none,1\r\ntwo,2',
    '\n\ntext,note\n"a, b","say ""hi"""\n\n  \n"line\nbreak\r\nand\rmore",x\nplain "quotes" inside,"closed" then more\n',
    'text,note\n"",\nonly\n,right\n',
    ',text\n0,zero\n1,"one\n"\n',
    'text;x,n\r"a";b,c\rd,e\r',
    'text,n\n"ends quoted","x"',
    'text,n\nlast cell empty,\n',
    'text,n\n  kept blanks  , y \n\ttab\t,z\n',
    'text\n"unicode \u00e4\u65e5\U0001f600"\n"\u2028 is no line break"\n',
]
TABS = ['text\tn\na\t1\n"b\tc"\t2\n', 'text\tn\n\t\n \nx\ty\n']
TEXTS = ['one\ntwo\n\nfour', 'cr\rand crlf\r\nend\n', '', '\n', 'no break', 'ff\x0c vt\x0b nel\u0085 ls\u2028 stay\n  blanks  \n']


def as_text(value):
    """A value as its text: a table's cells are text here, whatever pandas takes them for."""
    return None if value is None else str(value)


def files():
    folder = pathlib.Path(tempfile.mkdtemp())
    cases = []

    def add(name, text, rows):
        cases.append({"name": name, "text": text, "rows": rows})

    for ending, contents, options in (("csv", TABLES, {}), ("tsv", TABS, {"sep": "\t"})):
        for number, text in enumerate(contents):
            path = folder / f"{number}.{ending}"
            path.write_bytes(text.encode())
            table = load_dataset("csv", data_files=str(path), split="train", cache_dir=str(folder / "cache"), **options)
            add(f"table.{ending}", text, [{name: as_text(value) for name, value in row.items()} for row in table])
    for number, text in enumerate(TEXTS):
        path = folder / f"{number}.txt"
        path.write_bytes(text.encode())
        for sample_by in ("line", "document"):
            if not text and sample_by == "line":
                rows = []
            else:
                rows = list(load_dataset("text", data_files=str(path), split="train", sample_by=sample_by, cache_dir=str(folder / "cache")))
            add(f"{sample_by}.txt", text, rows)
    write("files", cases)


if __name__ == "__main__":
    slices()
    mixtures()
    files()

#!/usr/bin/env python3
"""Tokenizing next to the `tokenizers` package: one core, the same tokenizer.json, the same texts.

    .deps/venv/bin/python tests/bench/tokenizer.py [more/tokenizer.json ...]

Rounds of the two sides take turns, so that both see the same moods of the machine. The package encodes all texts with
encode_batch (which gives offsets too) and encode_batch_fast (which does not), without threads; ours gives ids and starts
each round with an empty word cache. Vocabularies are trained here, on Python's own library and made-up multilingual text.
Memory: what a process holds after loading, less what it holds without.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import sysconfig
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "text"))

from bench_file import BUILD, median, write  # noqa: E402
from test_against_package import LLAMA3, QWEN2, WORDS, byte_level, sentencepiece, split_then_bytes  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

TOOL = BUILD / "bin" / "tokenizer_tool"
ROUNDS = 7


def library_texts(size):
    """Code and English, in files of some kilobytes."""
    texts, total = [], 0
    for path in sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        content = path.read_text(encoding="utf-8", errors="replace")
        for start in range(0, len(content), 4000):
            texts.append(content[start : start + 4000])
            total += len(texts[-1].encode())
        if total > size:
            break
    return texts


def mixed_texts(size):
    """Words of many languages and alphabets."""
    rng = random.Random(7)
    texts, total = [], 0
    while total < size:
        texts.append(" ".join(rng.choice(WORDS) for _ in range(rng.randrange(50, 900))))
        total += len(texts[-1].encode())
    return texts


def train(kind, texts, size):
    tokenizer = Tokenizer(models.BPE(**kind["model"]))
    if kind["normalizer"] is not None:
        tokenizer.normalizer = kind["normalizer"]
    trained_with = kind["pre"]
    if kind["model"].get("byte_fallback"):
        trained_with = pre_tokenizers.Metaspace("\u2581", "first", split=True)
    tokenizer.pre_tokenizer = trained_with
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] * bool(kind["model"].get("byte_fallback"))
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, show_progress=False, initial_alphabet=kind["alphabet"]))
    tokenizer.pre_tokenizer = kind["pre"]
    tokenizer.decoder = kind["decoder"]
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [t for t in content["added_tokens"] if not t["content"].startswith("<0x")]
    return json.dumps(content, ensure_ascii=False, indent=1)


def resident_kib(path):
    """Of the tool after loading, before its first text; the same for an empty vocabulary is taken off."""
    answer = subprocess.run([TOOL, path, "--memory", "1"], capture_output=True, text=True, check=True).stdout
    return json.loads(answer)["resident_kib"]


def measure(name, path, texts, lines, rows, empty_kib):
    tokenizer = Tokenizer.from_file(str(path))
    size = sum(len(text.encode()) for text in texts)
    seconds = {"batch": [], "fast": [], "ours": []}
    tokens = {}
    for _ in range(ROUNDS):
        for method, encode in (("batch", tokenizer.encode_batch), ("fast", tokenizer.encode_batch_fast)):
            start = time.perf_counter()
            encodings = encode(texts)
            seconds[method].append(time.perf_counter() - start)
            tokens[method] = sum(len(encoding.ids) for encoding in encodings)
        ours = json.loads(subprocess.run([TOOL, path, "--speed", "1"], input=lines, capture_output=True, check=True).stdout)
        seconds["ours"].append(ours["seconds"])
        assert ours["tokens"] == tokens["batch"] == tokens["fast"], (name, ours, tokens)
    ratio = median([a / b for a, b in zip(seconds["batch"], seconds["ours"])])
    rows.append({
        "tokenizer": name, "vocabulary": tokenizer.get_vocab_size(), "texts": len(texts), "MB": size / 1e6,
        "package_MB_per_s": size / 1e6 / median(seconds["batch"]), "fast_MB_per_s": size / 1e6 / median(seconds["fast"]),
        "ours_MB_per_s": size / 1e6 / median(seconds["ours"]), "times_package": ratio,
        "times_fast": median([a / b for a, b in zip(seconds["fast"], seconds["ours"])]),
        "file_KiB": os.path.getsize(path) / 1024, "memory_per_file": (resident_kib(path) - empty_kib) * 1024 / os.path.getsize(path),
    })


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tokenizers", nargs="*", help="further tokenizer.json files")
    arguments = arguments.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    library, mixed = library_texts(4_000_000), mixed_texts(2_000_000)
    kinds = {
        "qwen2": byte_level(split_then_bytes(QWEN2), normalizers.NFC()),
        "llama3": byte_level(split_then_bytes(LLAMA3), ignore_merges=True),
        "gpt2": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "llama2": sentencepiece(pre_tokenizers.Metaspace("\u2581", "first", split=False)),
    }
    for kind in kinds.values():
        kind["model"].setdefault("fuse_unk", False)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        empty = pathlib.Path(folder) / "empty.json"
        empty.write_text('{"model": {"type": "BPE", "vocab": {}, "merges": []}}')
        empty_kib = resident_kib(empty)
        paths = {}
        for name, kind in kinds.items():
            for size in (1_500, 30_000):
                paths[f"{name} {size}"] = pathlib.Path(folder) / f"{name}-{size}.json"
                paths[f"{name} {size}"].write_text(train(kind, library + mixed, size))
        paths.update({pathlib.Path(path).stem: pathlib.Path(path) for path in arguments.tokenizers})
        for what, texts in (("code", library), ("mixed", mixed)):
            lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
            for name, path in paths.items():
                measure(f"{name} {what}", path, texts, lines, rows, empty_kib)
    write("tokenizer", __doc__, "tests/bench/tokenizer.py", rows)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the other files of this folder: the config of a very small model, its tokenizer, and notes for it to learn.

The notes are short made-up questions with answers, of which the answers are learned. A token is a byte, 256 ends a text.
"""

import json
import pathlib
import random

PLACES = ["harbour", "station", "market", "library", "garden", "workshop", "bakery", "museum", "school", "bridge"]
THINGS = ["lamp", "bench", "clock", "door", "window", "table", "kettle", "ladder", "map", "bell"]
COLOURS = ["red", "green", "blue", "white", "black", "yellow"]
END = 256
END_TEXT = "<|end|>"


def note(rng):
    place, thing, colour = rng.choice(PLACES), rng.choice(THINGS), rng.choice(COLOURS)
    number = rng.randint(2, 9)
    kind = rng.randrange(3)
    if kind == 0:
        return f"Where is the {colour} {thing}? ", f"The {colour} {thing} is in the {place}."
    if kind == 1:
        return f"How many {thing}s are in the {place}? ", f"There are {number} {thing}s in the {place}."
    return f"What colour is the {thing} of the {place}? ", f"The {thing} of the {place} is {colour}."


def byte_tokenizer():
    """What byte-level tokenizers start from: a printable character for every byte, and no merges."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    character = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": END, "content": END_TEXT, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True}],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {character[byte]: byte for byte in range(256)}, "merges": []},
    }


def main():
    rng = random.Random(20)
    folder = pathlib.Path(__file__).resolve().parent
    config = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 320, "hidden_size": 64,
        "intermediate_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": True, "initializer_range": 0.05, "torch_dtype": "float32", "eos_token_id": END,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer(), indent=1, ensure_ascii=False) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_TEXT, "pad_token": END_TEXT}, indent=2) + "\n")
    with open(folder / "notes.jsonl", "w") as file:
        for _ in range(400):
            question, answer = note(rng)
            file.write(json.dumps({"prompt": question, "completion": answer}) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the other files of this folder: the config of a very small model and rows of bytes for it to learn.

The rows are short made-up notes; a token is a byte, 256 ends a text. What is learned is the answer, not the
question.
"""

import json
import pathlib
import random

PLACES = ["harbour", "station", "market", "library", "garden", "workshop", "bakery", "museum", "school", "bridge"]
THINGS = ["lamp", "bench", "clock", "door", "window", "table", "kettle", "ladder", "map", "bell"]
COLOURS = ["red", "green", "blue", "white", "black", "yellow"]
END = 256


def note(rng):
    place, thing, colour = rng.choice(PLACES), rng.choice(THINGS), rng.choice(COLOURS)
    number = rng.randint(2, 9)
    kind = rng.randrange(3)
    if kind == 0:
        return f"Where is the {colour} {thing}? ", f"The {colour} {thing} is in the {place}."
    if kind == 1:
        return f"How many {thing}s are in the {place}? ", f"There are {number} {thing}s in the {place}."
    return f"What colour is the {thing} of the {place}? ", f"The {thing} of the {place} is {colour}."


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
    with open(folder / "notes.jsonl", "w") as file:
        for _ in range(400):
            question, answer = (list(part.encode()) for part in note(rng))
            labels = [-100] * len(question) + answer + [END]
            file.write(json.dumps({"input_ids": question + answer + [END], "labels": labels}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

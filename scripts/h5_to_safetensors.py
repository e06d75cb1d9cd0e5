#!/usr/bin/env python3
"""A Hugging Face folder from a checkpoint, for machines without the program: needs numpy and h5py only.

    python3 scripts/h5_to_safetensors.py OUT/checkpoint-500 FOLDER [--dtype bfloat16]

Writes the weights of state.h5 into one model.safetensors, one tensor after another, and copies what stands beside them.
`trainer export` does the same in parallel and looks through the checkpoint first.
"""

import argparse
import json
import os
import shutil
import struct
import sys

import h5py
import numpy as np

BESIDE = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
          "chat_template.jinja", "vocab.json", "merges.txt", "tokenizer.model")
NAMES = {"float32": ("F32", 4), "bfloat16": ("BF16", 2)}
PIECE = 1 << 24  # numbers at a time


def to_bytes(numbers, dtype):
    """Little-endian; bfloat16 is the upper half of float32, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(numbers, dtype="<f4").view("<u4")
    if not np.isfinite(numbers).all():
        raise ValueError("holds NaN or infinite numbers: no model is made of them")
    if dtype == "float32":
        return bits.tobytes()
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("<u2").tobytes()


def write_weights(weights, path, dtype):
    """`weights`: datasets by name, all of float32."""
    stored, size = NAMES[dtype]
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(weights):
        end = offset + weights[name].size * size
        header[name] = {"dtype": stored, "shape": list(weights[name].shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".tmp", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(weights):
            dataset = weights[name]
            rows = max(1, PIECE // max(1, int(np.prod(dataset.shape[1:]))))
            for first in range(0, dataset.shape[0], rows):
                try:
                    file.write(to_bytes(dataset[first:first + rows], dtype))
                except ValueError as error:
                    raise ValueError(f"{name} {error}") from error
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def copy_beside(checkpoint, folder, dtype):
    for name in BESIDE:
        if name != "config.json" and os.path.exists(os.path.join(checkpoint, name)):
            shutil.copyfile(os.path.join(checkpoint, name), os.path.join(folder, name))
    with open(os.path.join(checkpoint, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["dtype"] = dtype
    if "torch_dtype" in config:  # where older readers look
        config["torch_dtype"] = dtype
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2, ensure_ascii=False)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="a folder checkpoint-<step>")
    parser.add_argument("folder", help="is made; an older model.safetensors in it is replaced")
    parser.add_argument("--dtype", choices=NAMES, default="float32")
    wish = parser.parse_args()
    state = os.path.join(wish.checkpoint, "state.h5")
    for file in (state, os.path.join(wish.checkpoint, "manifest.json")):
        if not os.path.exists(file):
            sys.exit(f"{file}: there is no such file; name the folder of a finished checkpoint")
    if os.path.exists(wish.folder) and os.path.samefile(wish.checkpoint, wish.folder):
        sys.exit(f"{wish.folder}: is the checkpoint itself; name another folder")
    with h5py.File(state, "r") as file:
        if "frozen" in file.get("text", {}):
            sys.exit(f"{state}: holds the weights that were trained alone; frozen ones are in the pretrained model: use trainer export")
        if "passed" in file.get("text", {}):
            sys.exit(f"{state}: holds the text model of a wrapped model alone; its other tensors are in the pretrained model: use trainer export")
    os.makedirs(wish.folder, exist_ok=True)
    copy_beside(wish.checkpoint, wish.folder, wish.dtype)
    with h5py.File(state, "r") as file:
        try:
            write_weights(dict(file["model"].items()), os.path.join(wish.folder, "model.safetensors"), wish.dtype)
        except ValueError as error:
            sys.exit(f"{state}: {error}")
    print(f"wrote {wish.folder}: {wish.checkpoint} as {wish.dtype}")


if __name__ == "__main__":
    main()

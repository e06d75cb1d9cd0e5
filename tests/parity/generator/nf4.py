"""Matrices in four and eight bits, as bitsandbytes quantises them.

    python nf4.py --out tests/parity/data/nf4

bitsandbytes is not among the oracles: pip install bitsandbytes==0.50.2 first. Its kernels for the CPU look the codes of nested
scales up in a table of 65536 entries, which misses the nearest value now and then; its kernels for GPUs and its reference, which
this script takes by leaving the native library out, do not.
"""
import argparse
import ctypes
import os
from pathlib import Path

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

load_library = ctypes.cdll.LoadLibrary


def without_native_library(name):
    if "bitsandbytes" in str(name):
        raise OSError("left out")
    return load_library(name)


ctypes.cdll.LoadLibrary = without_native_library
import bitsandbytes.functional as bnb  # noqa: E402

# Weights of models lie in files as bf16. The sums of their scales are exact, so that no order of additions matters.
SHAPES = {"whole": (24, 192), "nested": (130, 320), "short": (7, 33), "odd": (5, 21), "tiny": (3, 3)}


def make(name, random):
    weights = (0.02 * torch.randn(SHAPES[name], generator=random)).bfloat16()
    if name == "whole":
        weights[3, :128] = 0  # two blocks of nothing
        weights[5, 7] = 1.5
    return weights


def make_rows(random):
    weights = 0.02 * torch.randn((9, 40), generator=random)
    weights[1] = 0
    weights[2] *= 1e-4  # below the normal numbers of fp16
    weights[3] *= 1e6
    weights[4, 0], weights[4, 1:] = 127, torch.arange(39) - 19.5  # halves of a code
    weights[5] = weights[5].bfloat16()
    return weights


def write_int8(out, random):
    weights = make_rows(random)
    codes, scales, _ = bnb.int8_vectorwise_quant(weights.half())
    dense = bnb.int8_vectorwise_dequant(codes, scales)
    tensors = {"weight": weights, "codes": codes.view(torch.uint8), "scales": scales, "dense": dense}
    save_file(tensors, out / "int8.safetensors", metadata={"format": "pt"})
    (out / "int8.safetensors").chmod(0o644)


def write(out):
    random = torch.Generator().manual_seed(20261)
    tensors = {}
    for name in SHAPES:
        weights = make(name, random)
        codes, plain = bnb.quantize_4bit(weights.float(), blocksize=64, quant_type="nf4")
        same, nested = bnb.quantize_4bit(weights.float(), blocksize=64, quant_type="nf4", compress_statistics=True)
        assert torch.equal(codes, same)
        of_bf16, of_bf16_state = bnb.quantize_4bit(weights, blocksize=64, quant_type="nf4")
        assert torch.equal(codes, of_bf16) and torch.equal(plain.absmax, of_bf16_state.absmax)
        tensors.update({
            f"{name}.weight": weights, f"{name}.codes": codes.flatten(), f"{name}.scales": plain.absmax,
            f"{name}.scale_codes": nested.absmax, f"{name}.nested_scales": nested.state2.absmax,
            f"{name}.mean": nested.offset.reshape(1), f"{name}.dense_nested": bnb.dequantize_4bit(codes, nested),
        })
        if name != "nested":  # its scales are what it is for
            tensors[f"{name}.dense"] = bnb.dequantize_4bit(codes, plain)
        nested.dtype = torch.bfloat16
        assert torch.equal(bnb.dequantize_4bit(codes, nested), tensors[f"{name}.dense_nested"].bfloat16())
    tensors["scale_values"] = nested.state2.code
    tensors["values"] = plain.code
    out.mkdir(parents=True, exist_ok=True)
    save_file({key: value.contiguous() for key, value in tensors.items()}, out / "codes.safetensors", metadata={"format": "pt"})
    (out / "codes.safetensors").chmod(0o644)
    write_int8(out, random)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True, type=Path)
    torch.set_num_threads(1)
    write(parser.parse_args().out)

"""A linear layer in FP8 by PyTorch's own casts: each row (of the weight in the backward pass: each column) has the largest power of
two as scale that keeps it in the range of the format, as torchao's rowwise recipes have it. Sums in double precision.

    python fp8.py --out tests/parity/data/fp8
"""
import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file

TOKENS, IN, OUT = 40, 112, 80


def rounded(x, dtype, dim):
    """In fp32, along rows (dim 1) or columns (dim 0)."""
    amax = x.double().abs().amax(dim, keepdim=True).clamp(min=1e-30)
    scale = torch.exp2(torch.floor(torch.log2(torch.finfo(dtype).max / amax)))
    return ((x.double() * scale).float().to(dtype).double() / scale).float()


def exponent_of(amax, dtype, margin=0):
    """Of the scale of a tensor with this maximum."""
    return int(torch.floor(torch.log2(torch.finfo(dtype).max / torch.tensor(amax, dtype=torch.float64)))) - margin


def rounded_with(x, dtype, exponent):
    """In fp32, with the scale 2^exponent; numbers beyond the range become the largest one."""
    largest = torch.finfo(dtype).max
    scaled = (x.double() * 2.0**exponent).clamp(-largest, largest)
    return (scaled.float().to(dtype).double() / 2.0**exponent).float()


def rounded_alike(x, dtype):
    """In fp32, with one scale for the whole tensor."""
    return rounded_with(x, dtype, exponent_of(x.abs().max().clamp(min=1e-30).item(), dtype))


def numbers(rows, columns, random):
    x = torch.randn(rows, columns, generator=random) * torch.exp(2 * torch.randn(rows, 1, generator=random))
    x[3] = 0
    x[4] *= 1e-20
    x[5] *= 1e20
    x[6] = torch.linspace(-1.75, 1.75, columns)  # the largest is just in the range
    x[7, 0] = 3000.0                             # the others are subnormal beside it
    return x.bfloat16()


def main(out):
    random = torch.Generator().manual_seed(20262)
    x, dy = numbers(TOKENS, IN, random), numbers(TOKENS, OUT, random)
    weight = (0.02 * torch.randn(OUT, IN, generator=random)).bfloat16()
    weight[:, 5] = 0
    weight[2] *= 300
    bias = torch.randn(OUT, generator=random).bfloat16()
    e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
    tensors = {"x": x, "dy": dy, "weight": weight, "bias": bias,
               "x_rounded": rounded(x, e4m3, 1), "weight_rows": rounded(weight, e4m3, 1), "weight_columns": rounded(weight, e4m3, 0),
               "dy_e4m3": rounded(dy, e4m3, 1), "dy_e5m2": rounded(dy, e5m2, 1)}
    for name, value in tensors.items():
        assert torch.equal(value.float(), value.bfloat16().float()), name
        tensors[name] = value.bfloat16()
    exact = {name: value.double() for name, value in tensors.items()}
    tensors["y"] = (exact["x_rounded"] @ exact["weight_rows"].T + exact["bias"]).float()
    for name in ("e4m3", "e5m2"):
        tensors["dx_" + name] = (exact["dy_" + name] @ exact["weight_columns"]).float()
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / "products.safetensors")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    main(parser.parse_args().out)

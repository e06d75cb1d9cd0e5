"""Runs of SFTTrainer in bf16 whose linear layers of blocks compute as fp8.py has it: products of rounded factors. Layers of one input
(q, k and v; gate and up) are one product, as in this program, and layers whose sizes are no multiples of 16 stay as they are.

    python fp8_traces.py --data tests/parity/data --out tests/parity/data/fp8
"""
import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import Run, write_json  # noqa: E402
from fp8 import rounded  # noqa: E402
from traces import CHAT, SHORT, build, case  # noqa: E402

import torch  # noqa: E402

CASES = {
    "e4m3": (case("qwen2-tiny", CHAT, max_steps=24, bf16=True), "E4M3"),
    "hybrid": (case("phi3-tiny", SHORT, max_steps=16, packing=True, max_length=128, per_device_train_batch_size=4, bf16=True), "HYBRID"),
}
GROUPS = (("q_proj", "k_proj", "v_proj"), ("qkv_proj",), ("o_proj",), ("gate_proj", "up_proj"), ("gate_up_proj",), ("down_proj",))


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, of_gradients):
        flat, weight = x.reshape(-1, x.shape[-1]).bfloat16(), weight.bfloat16()
        ctx.save_for_backward(flat, weight)
        ctx.x, ctx.of_gradients, ctx.has_bias = x, of_gradients, bias is not None
        y = rounded(flat, torch.float8_e4m3fn, 1) @ rounded(weight, torch.float8_e4m3fn, 1).T
        if bias is not None:
            y = y + bias.bfloat16().float()
        return y.bfloat16().reshape(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dy = dy.reshape(-1, dy.shape[-1]).bfloat16()
        dx = rounded(dy, ctx.of_gradients, 1) @ rounded(weight, torch.float8_e4m3fn, 0)
        return (dx.bfloat16().reshape(ctx.x.shape).to(ctx.x.dtype), dy.float().T @ x.float(),
                dy.float().sum(0) if ctx.has_bias else None, None)


class Group:
    """Layers side by side, computed once for an input."""

    def __init__(self, layers, of_gradients):
        self.layers, self.of_gradients, self.x, self.y = layers, of_gradients, None, None
        begin = 0
        for layer in layers:
            end = begin + layer.out_features
            layer.forward = lambda x, begin=begin, end=end: self(x)[..., begin:end]
            begin = end

    def __call__(self, x):
        if self.x is not x:
            weight = torch.cat([layer.weight for layer in self.layers])
            biases = [layer.bias for layer in self.layers]
            bias = None if biases[0] is None else torch.cat(biases)
            self.x, self.y = x, Product.apply(x, weight, bias, self.of_gradients)
        return self.y


def replace(model, of_gradients):
    count = 0
    for block in model.model.layers:
        for part in (block.self_attn, block.mlp):
            for names in GROUPS:
                layers = [getattr(part, name) for name in names if hasattr(part, name)]
                if len(layers) < len(names) or layers[0].in_features % 16 or sum(layer.out_features for layer in layers) % 16:
                    continue
                Group(layers, of_gradients)
                count += 1
    return count


def main(data, out):
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("models", "models"), ("data", "rows"), ("chat", "chat")):
            os.symlink(data.resolve() / target, Path(folder) / name)
        run = Run(out=folder, seed=0, variant="a")
        for name, (spec, form) in CASES.items():
            traces = {}
            for kind in ("fp8", "bf16"):
                trainer, args = build(run, spec)
                if kind == "fp8":
                    count = replace(trainer.model, torch.float8_e4m3fn if form == "E4M3" else torch.float8_e5m2)
                trainer.train()
                traces[kind] = [{key: row[key] for key in ("loss", "grad_norm", "num_tokens")} for row in trainer.state.log_history if "loss" in row]
            del args["bf16"]
            args.update(mixed_precision="fp8", fp8_format=form)
            write_json(out / f"{name}.json", {"model": "models/" + spec["model"], "data": spec["data"], "args": args, "products": count,
                                              "steps": traces["fp8"], "steps_in_bf16": traces["bf16"]})
            print(name, count, [round(row["loss"], 4) for row in traces["fp8"]][::5], [round(row["loss"], 4) for row in traces["bf16"]][::5], flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    main(arguments.data, arguments.out)

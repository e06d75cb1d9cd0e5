"""Runs of SFTTrainer in bf16 whose linear layers of blocks compute as fp8.py has it: products of rounded factors. Layers of one input
(q, k and v; gate and up) are one product, as in this program, and layers whose sizes are no multiples of 16 stay as they are.

Recipes: rowwise; tensorwise, a scale for each factor; delayed, where the scales of inputs and output gradients follow from the maxima of
earlier steps, those of weights from their own, and a factor without a history has a scale for each row.

    python fp8_traces.py --data tests/parity/data --out tests/parity/data/fp8
"""
import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import Run, write_json  # noqa: E402
from fp8 import exponent_of, rounded, rounded_alike, rounded_with  # noqa: E402
from traces import CHAT, SHORT, build, case  # noqa: E402

import torch  # noqa: E402
from transformers import TrainerCallback  # noqa: E402

PACKED = dict(packing=True, max_length=128, per_device_train_batch_size=4, bf16=True)
CASES = {
    "e4m3": (case("qwen2-tiny", CHAT, max_steps=24, bf16=True), dict(fp8_format="E4M3")),
    "hybrid": (case("phi3-tiny", SHORT, max_steps=16, **PACKED), dict(fp8_format="HYBRID")),
    "tensorwise": (case("qwen2-tiny", SHORT, max_steps=12, **PACKED), dict(fp8_format="HYBRID", fp8_recipe="tensorwise")),
    # No padding, whose numbers would have a part in the maxima.
    "delayed": (case("phi3-tiny", SHORT, max_steps=20, **PACKED),
                dict(fp8_format="HYBRID", fp8_recipe="delayed", fp8_amax_history_len=4, fp8_amax_compute_algo="max")),
    "delayed_recent": (case("qwen2-tiny", SHORT, max_steps=20, **{**PACKED, "per_device_train_batch_size": 2}, gradient_accumulation_steps=2),
                       dict(fp8_format="E4M3", fp8_recipe="delayed", fp8_amax_history_len=3, fp8_margin=14)),
}
GROUPS = (("q_proj", "k_proj", "v_proj"), ("qkv_proj",), ("o_proj",), ("gate_proj", "up_proj"), ("gate_up_proj",), ("down_proj",))


class Factor:
    """An input or an output gradient of a product, with its history."""

    def __init__(self, dtype, form):
        self.dtype, self.form, self.history, self.maximum = dtype, form, [], 0.0

    def amax(self):
        newest = self.form.get("fp8_amax_compute_algo", "most_recent") == "most_recent"
        return (self.history[-1] if newest else max(self.history)) if self.history else 0.0

    def has_one_scale(self):
        recipe = self.form.get("fp8_recipe", "rowwise")
        return recipe == "tensorwise" or (recipe == "delayed" and self.amax() > 0)

    def rounded(self, x):
        self.maximum = max(self.maximum, x.abs().max().item())
        if not self.has_one_scale():
            return rounded(x, self.dtype, 1)
        if self.form["fp8_recipe"] == "tensorwise":
            return rounded_alike(x, self.dtype)
        return rounded_with(x, self.dtype, exponent_of(self.amax(), self.dtype, self.form.get("fp8_margin", 0)))

    def weight(self, weight, dim):
        return rounded_alike(weight, torch.float8_e4m3fn) if self.has_one_scale() else rounded(weight, torch.float8_e4m3fn, dim)

    def end_step(self):
        self.history = (self.history + [self.maximum])[-self.form.get("fp8_amax_history_len", 1024):]
        self.maximum = 0.0


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, of_x, of_dy):
        flat, weight = x.reshape(-1, x.shape[-1]).bfloat16(), weight.bfloat16()
        ctx.save_for_backward(flat, weight)
        ctx.x, ctx.of_dy, ctx.has_bias = x, of_dy, bias is not None
        y = of_x.rounded(flat) @ of_x.weight(weight, 1).T
        if bias is not None:
            y = y + bias.bfloat16().float()
        return y.bfloat16().reshape(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dy = dy.reshape(-1, dy.shape[-1]).bfloat16()
        dx = ctx.of_dy.rounded(dy) @ ctx.of_dy.weight(weight, 0)
        return (dx.bfloat16().reshape(ctx.x.shape).to(ctx.x.dtype), dy.float().T @ x.float(),
                dy.float().sum(0) if ctx.has_bias else None, None, None)


class Group:
    """Layers side by side, computed once for an input."""

    def __init__(self, layers, form):
        self.layers, self.x, self.y = layers, None, None
        of_gradients = torch.float8_e4m3fn if form["fp8_format"] == "E4M3" else torch.float8_e5m2
        self.of_x, self.of_dy = Factor(torch.float8_e4m3fn, form), Factor(of_gradients, form)
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
            self.x, self.y = x, Product.apply(x, weight, bias, self.of_x, self.of_dy)
        return self.y


def replace(model, form):
    groups = []
    for block in model.model.layers:
        for part in (block.self_attn, block.mlp):
            for names in GROUPS:
                layers = [getattr(part, name) for name in names if hasattr(part, name)]
                if len(layers) < len(names) or layers[0].in_features % 16 or sum(layer.out_features for layer in layers) % 16:
                    continue
                groups.append(Group(layers, form))
    return groups


class EndOfStep(TrainerCallback):
    def __init__(self, groups):
        self.factors = [factor for group in groups for factor in (group.of_x, group.of_dy)]
        self.maxima = []  # of all factors, by step

    def on_step_end(self, *_, **__):
        self.maxima.append([factor.maximum for factor in self.factors])
        for factor in self.factors:
            factor.end_step()


def main(data, out, names):
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("models", "models"), ("data", "rows"), ("chat", "chat")):
            os.symlink(data.resolve() / target, Path(folder) / name)
        run = Run(out=folder, seed=0, variant="a")
        for name in names or CASES:
            spec, form = CASES[name]
            traces = {}
            for kind in ("fp8", "bf16"):
                trainer, args = build(run, spec)
                if kind == "fp8":
                    groups = replace(trainer.model, form)
                    ends = EndOfStep(groups)
                    trainer.add_callback(ends)
                trainer.train()
                traces[kind] = [{key: row[key] for key in ("loss", "grad_norm", "num_tokens")} for row in trainer.state.log_history if "loss" in row]
            del args["bf16"]
            args.update(mixed_precision="fp8", **form)
            trace = {"model": "models/" + spec["model"], "data": spec["data"], "args": args, "products": len(groups),
                     "steps": traces["fp8"], "steps_in_bf16": traces["bf16"]}
            if form.get("fp8_recipe") == "delayed":
                trace["maxima"] = ends.maxima[:3]
            write_json(out / f"{name}.json", trace)
            print(name, len(groups), [round(row["loss"], 4) for row in traces["fp8"]][::5],
                  [round(row["loss"], 4) for row in traces["bf16"]][::5], flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", help="of cases; all if none is given")
    arguments = parser.parse_args()
    main(arguments.data, arguments.out, arguments.names)

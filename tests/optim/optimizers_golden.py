"""Weights after steps of the optimizers of PyTorch, and of bitsandbytes' definition of moments in 8 bits, on gradients that a formula
gives; and of schedulefree and of transformers' Adafactor. Writes optimizers.json. Needs torch, schedulefree 1.4.1, transformers, and
bitsandbytes 0.50 for the codes."""

import json
import math
import os

import numpy as np
import torch
from bitsandbytes.backends.triton.kernels_optim import _quantize_blockwise_pytorch, optimizer_update_8bit_blockwise_pytorch
from bitsandbytes.functional import create_dynamic_map

STEPS = 50
SHAPES = {"wide": (64, 128), "tall": (96, 48), "square": (64, 64), "vector": (300,)}


def values(name, step, scale):
    count = math.prod(SHAPES[name])
    first = sum(map(ord, name)) % 17
    numbers = [scale * math.sin(0.37 * i + first + 1.7 * step + 0.001 * i * step) for i in range(count)]
    return torch.tensor(numbers, dtype=torch.float64).to(torch.float32).reshape(SHAPES[name])


def run(make):
    weights = {name: torch.nn.Parameter(values(name, 0, 0.5)) for name in SHAPES}
    optimizers = make(weights)
    for step in range(1, STEPS + 1):
        for name, weight in weights.items():
            weight.grad = values(name, step, 0.1)
        for optimizer in optimizers:
            optimizer.step()
    for optimizer in optimizers:
        if hasattr(optimizer, "eval"):
            optimizer.eval()
    return {name: [round(number, 7) for number in weight.detach().flatten()[::194].tolist()] for name, weight in weights.items()}


def muon(**arguments):
    def make(weights):
        matrices = [weight for weight in weights.values() if weight.dim() == 2]
        vectors = [weight for weight in weights.values() if weight.dim() != 2]
        return [torch.optim.Muon(matrices, lr=1e-2, weight_decay=0.1, **arguments),
                torch.optim.AdamW(vectors, lr=1e-2, weight_decay=0, betas=(0.9, 0.99))]
    return make


def adam(weights):
    return [torch.optim.Adam([{"params": [w for w in weights.values() if w.dim() == 2], "weight_decay": 0.1},
                              {"params": [w for w in weights.values() if w.dim() != 2], "weight_decay": 0}], lr=1e-2, betas=(0.9, 0.99))]


def sgd(**arguments):
    def make(weights):
        return [torch.optim.SGD([{"params": [w for w in weights.values() if w.dim() == 2], "weight_decay": 0.1},
                                 {"params": [w for w in weights.values() if w.dim() != 2], "weight_decay": 0}], lr=1e-2, **arguments)]
    return make


def rmsprop(**arguments):
    """As transformers' Trainer makes it."""
    return lambda weights: [torch.optim.RMSprop(groups_of(weights), lr=1e-2, **arguments)]


def adagrad(**arguments):
    return lambda weights: [torch.optim.Adagrad(groups_of(weights), lr=1e-2, **arguments)]


def groups_of(weights):
    """With weight decay for matrices alone."""
    return [{"params": [w for w in weights.values() if w.dim() == 2], "weight_decay": 0.1},
            {"params": [w for w in weights.values() if w.dim() != 2], "weight_decay": 0}]


def schedule_free(kind, **arguments):
    """The points at which gradients are taken stand in the weights while it trains; then the average does."""
    def make(weights):
        import schedulefree
        optimizer = getattr(schedulefree, kind)(groups_of(weights), lr=1e-2, warmup_steps=10, **arguments)
        optimizer.train()
        return [optimizer]
    return make


def adafactor(weights):
    """As transformers' Trainer makes it."""
    from transformers.optimization import Adafactor
    return [Adafactor(groups_of(weights), lr=1e-2, scale_parameter=False, relative_step=False)]


class Coded:
    """bitsandbytes' update of one tensor."""

    def __init__(self, weight, name):
        self.weight, self.name, self.steps = weight, name, 0
        self.codes = [torch.zeros(weight.numel(), dtype=torch.uint8) for _ in range(2)]
        self.maxima = [torch.zeros(weight.numel() // 256) for _ in range(2)]
        self.maps = [create_dynamic_map(signed=True), create_dynamic_map(signed=False)]

    def step(self):
        self.steps += 1
        second = self.name == "adam"
        optimizer_update_8bit_blockwise_pytorch(
            self.weight.data.view(-1), self.weight.grad.view(-1), self.codes[0], self.codes[1] if second else None, 0.9, 0.99, 0.0, 0.0,
            1e-8, self.steps, 1e-2, self.maps[0], self.maps[1] if second else None, self.maxima[0], self.maxima[1] if second else None,
            0.1, 1.0, False, optimizer_name=self.name)


class Lion:
    """The update of Lion's authors, without decay."""

    def __init__(self, weight):
        self.weight, self.moment = weight, torch.zeros_like(weight)

    def step(self):
        gradient = self.weight.grad
        self.weight.data -= 1e-2 * torch.sign(self.moment * 0.9 + gradient * 0.1)
        self.moment = self.moment * 0.99 + gradient * 0.01


def coded(name):
    def make(weights):
        found = [Coded(weight, name) for weight in weights.values() if weight.dim() == 2 and weight.numel() % 256 == 0]
        vector = weights["vector"]
        return found + [torch.optim.AdamW([vector], lr=1e-2, weight_decay=0, betas=(0.9, 0.99)) if name == "adam" else Lion(vector)]
    return make


def quantized():
    """The values of both codes; codes and maxima of signed blocks, by the function that bitsandbytes has for every device."""
    numbers = torch.tensor([math.sin(0.91 * i) ** (1 + 2 * (i % 9)) for i in range(512)])
    code = create_dynamic_map(signed=True)
    codes, maxima = _quantize_blockwise_pytorch(numbers, code, 256)
    return [{"signed": True, "numbers": numbers.tolist(), "codes": codes.tolist(), "maxima": maxima.tolist(), "values": code.tolist()},
            {"signed": False, "values": create_dynamic_map(signed=False).tolist()}]


def short(numbers):
    """The fewest digits that give the same fp32 numbers."""
    if isinstance(numbers, dict):
        return {name: short(value) for name, value in numbers.items()}
    if isinstance(numbers, list):
        return [short(value) for value in numbers]
    return float(str(np.float32(numbers))) if isinstance(numbers, float) else numbers


def main():
    goldens = {
        "adamw decoupled_weight_decay=False": run(adam),
        "muon": run(muon()),
        "muon momentum=0.9,nesterov=False,adjust_lr_fn=match_rms_adamw":
            run(muon(momentum=0.9, nesterov=False, adjust_lr_fn="match_rms_adamw")),
        "rmsprop": run(rmsprop()),
        "rmsprop alpha=0.9,eps=1e-4": run(rmsprop(alpha=0.9, eps=1e-4)),
        "adagrad": run(adagrad()),
        "adagrad lr_decay=0.1,eps=1e-6": run(adagrad(lr_decay=0.1, eps=1e-6)),
        "sgd": run(sgd()),
        "sgd momentum=0.9,dampening=0.1": run(sgd(momentum=0.9, dampening=0.1)),
        "sgd momentum=0.9,nesterov=True": run(sgd(momentum=0.9, nesterov=True)),
        "schedule_free_adamw": run(schedule_free("AdamWScheduleFree", betas=(0.9, 0.99))),
        "schedule_free_adamw r=0.5,weight_lr_power=1": run(schedule_free("AdamWScheduleFree", betas=(0.9, 0.99), r=0.5, weight_lr_power=1)),
        "schedule_free_sgd": run(schedule_free("SGDScheduleFree")),
        "adafactor": run(adafactor),
        "adamw_8bit": run(coded("adam")),
        "lion_8bit": run(coded("lion")),
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizers.json")
    with open(path, "w") as file:
        json.dump(short({"runs": goldens, "codes": quantized()}), file)
        file.write("\n")


if __name__ == "__main__":
    main()

"""Learning rates of torch's ReduceLROnPlateau beside evaluations that improve, stand still and get worse.

    python plateau.py --out tests/parity/data

Writes schedules/plateau.json.gz: learning_rate, lr_scheduler_kwargs, the metrics, and the rate and the best metric after each of them.
"""
import argparse
import json
import math
import random
from pathlib import Path

import torch
from common import short, write_packed
from torch.optim.lr_scheduler import ReduceLROnPlateau

KWARGS = [
    {}, {"patience": 0}, {"patience": 2, "factor": 0.5}, {"patience": 1, "cooldown": 3}, {"mode": "max", "patience": 1},
    {"threshold": 0.05, "patience": 1}, {"threshold": 0.05, "threshold_mode": "abs", "patience": 1},
    {"mode": "max", "threshold": 0.05, "threshold_mode": "abs", "patience": 0, "factor": 0.7}, {"patience": 0, "factor": 0.3, "min_lr": 1e-4},
    {"patience": 0, "factor": 0.9, "eps": 1e-4}, {"patience": 0, "factor": 0.0}, {"patience": 3, "cooldown": 1, "factor": 0.25, "min_lr": 1e-6},
]


def metrics_of(random_numbers, count):
    level, metrics = 3.0, []
    for _ in range(count):
        level += random_numbers.choice((-0.2, -0.01, -1e-5, 0.0, 0.0, 0.03))
        metrics.append(level)
    metrics[count // 2] = math.nan  # no improvement
    return metrics


def rates(kwargs, metrics, learning_rate):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=learning_rate)
    scheduler = ReduceLROnPlateau(optimizer, **kwargs)
    found = []
    for metric in metrics:
        scheduler.step(metric)
        found.append((optimizer.param_groups[0]["lr"], scheduler.best))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    folder = Path(parser.parse_args().out) / "schedules"
    cases = []
    for number, kwargs in enumerate(KWARGS):
        metrics = metrics_of(random.Random(number), 48)
        found = rates(kwargs, metrics, 1e-3)
        cases.append({"learning_rate": 1e-3, "lr_scheduler_kwargs": kwargs,
                      "metrics": [None if math.isnan(metric) else metric for metric in metrics],
                      "lr": [rate for rate, _ in found], "best": [best for _, best in found]})
    write_packed(folder / "plateau.json.gz", json.dumps(short(cases)) + "\n")

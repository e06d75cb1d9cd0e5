"""Learning rates of DeepSpeed's schedules, step by step, read from a DeepSpeed engine that trains on one CPU.

    pip install deepspeed (0.19.8 made the file that is kept; .deps/venv does not have it)
    python deepspeed_schedules.py OUT/deepspeed.json

Each entry is the `scheduler` block of a DeepSpeed file whose `auto` values HF's Trainer has filled in, the learning
rate of the optimizer, the number of steps, and the rate with which the engine took each step.
"""
import json
import os
import sys

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", DS_ACCELERATOR="cpu")
import deepspeed  # noqa: E402
import torch  # noqa: E402

CASES = [
    ("WarmupLR", {"warmup_num_steps": 5}, 12), ("WarmupLR", {"warmup_num_steps": 1}, 5),
    ("WarmupLR", {"warmup_num_steps": 4, "warmup_min_lr": 1e-4, "warmup_max_lr": 1e-3}, 10),
    ("WarmupLR", {"warmup_num_steps": 6, "warmup_type": "linear", "warmup_min_lr": 1e-5}, 12), ("WarmupLR", {}, 20),
    ("WarmupDecayLR", {"warmup_num_steps": 4, "total_num_steps": 14}, 14), ("WarmupDecayLR", {"warmup_num_steps": 1, "total_num_steps": 6}, 6),
    ("WarmupDecayLR", {"warmup_num_steps": 5, "total_num_steps": 20, "warmup_type": "linear", "warmup_min_lr": 2e-4}, 20),
    ("WarmupDecayLR", {"warmup_num_steps": 9, "total_num_steps": 6}, 6), ("WarmupDecayLR", {"total_num_steps": 12}, 12),
    ("WarmupCosineLR", {"warmup_num_steps": 4, "total_num_steps": 16}, 16),
    ("WarmupCosineLR", {"warmup_num_steps": 5, "total_num_steps": 15, "warmup_type": "linear", "warmup_min_ratio": 0.1, "cos_min_ratio": 0.05}, 15),
    ("WarmupCosineLR", {"warmup_num_steps": 8, "total_num_steps": 6}, 6), ("WarmupCosineLR", {"total_num_steps": 12}, 12),
]


def rates(kind, params, num_steps):
    model = torch.nn.Linear(2, 2)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "scheduler": {"type": kind, "params": params}})
    seen = []
    for _ in range(num_steps):
        engine.backward(engine(torch.ones(1, 2)).sum())
        seen.append(engine.optimizer.param_groups[0]["lr"])
        engine.step()
    return seen


if __name__ == "__main__":
    lines = [json.dumps({"scheduler": {"type": kind, "params": params}, "learning_rate": 1e-3, "num_steps": steps, "lr": rates(kind, params, steps)})
             for kind, params, steps in CASES]
    with open(sys.argv[1], "w") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")

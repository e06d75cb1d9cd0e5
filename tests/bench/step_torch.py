"""step_torch.py MODEL_FOLDER ROWS PRECISION OPTIMIZER CHECKPOINTING: PyTorch's side of step.cpp.

transformers' model in eager mode with sdpa attention; PRECISION is fp32, autocast (bf16 compute, fp32 weights) or bf16
(everything, as .to(bf16) makes it), OPTIMIZER fused or foreach, CHECKPOINTING yes or no. One step for each line on stdin.
"""

import contextlib
import json
import os
import resource
import sys
import time

import torch
import transformers

folder, rows, precision, optimizer_kind, checkpointing = sys.argv[1:]
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
transformers.logging.set_verbosity_error()
with open(rows) as file:
    tokens = torch.tensor([[int(token) for token in line.split()] for line in file])
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
if precision == "bf16":
    model.to(torch.bfloat16)
model.config.use_cache = False
model.train()
if checkpointing == "yes":
    model.gradient_checkpointing_enable({"use_reentrant": False})
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0, **{optimizer_kind: True})


def step():
    autocast = torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else contextlib.nullcontext()
    with autocast:
        loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item(), norm.item()


print(json.dumps({"ready": True}), flush=True)
for _ in sys.stdin:
    cpu, wall = time.process_time(), time.perf_counter()
    loss, norm = step()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"ms": 1e3 * wall, "cpu_ms": 1e3 * cpu, "loss": loss, "norm": norm,
                      "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)

"""step_torch.py MODEL_FOLDER ROWS PRECISION OPTIMIZER CHECKPOINTING [memory | compiled | EXPERTS]: PyTorch's side of step.cpp.

transformers' model with sdpa attention, in eager mode or compiled by torch.compile in its first step; PRECISION is fp32, autocast (bf16 compute, fp32 weights) or bf16
(everything, as .to(bf16) makes it), OPTIMIZER fused or foreach, CHECKPOINTING yes or no. One step for each line on stdin.
With memory: gradients and moments are there before the first of them, and from the second on the answers hold the
greatest sum of live allocations within the step, as the profiler records them. EXPERTS is the implementation of a model's
experts, grouped_mm or eager.
"""

import contextlib
import json
import os
import resource
import sys
import time

import torch
import transformers

folder, rows, precision, optimizer_kind, checkpointing = sys.argv[1:6]
way = sys.argv[6] if sys.argv[6:] else "eager"
watches_memory = way == "memory"
experts = {"experts_implementation": way} if way not in ("memory", "compiled") and sys.argv[6:] else {}
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
transformers.logging.set_verbosity_error()
with open(rows) as file:
    tokens = torch.tensor([[int(token) for token in line.split()] for line in file])
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa", **experts)
if precision == "bf16":
    model.to(torch.bfloat16)
model.config.use_cache = False
model.train()
if checkpointing == "yes":
    model.gradient_checkpointing_enable({"use_reentrant": False})
if way == "compiled":
    model.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0, **{optimizer_kind: True})


def step(tokens):
    autocast = torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else contextlib.nullcontext()
    with autocast:
        loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=not watches_memory)
    return loss.item(), norm.item()


def peak_of_allocations(profiler):
    live = peak = 0
    for event in sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


if watches_memory:
    step(tokens[:, :8])
print(json.dumps({"ready": True}), flush=True)
for number, _ in enumerate(sys.stdin):
    profiles = watches_memory and number > 0
    profiler = torch.profiler.profile(profile_memory=True) if profiles else contextlib.nullcontext()
    cpu, wall = time.process_time(), time.perf_counter()
    with profiler:
        loss, norm = step(tokens)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"ms": 1e3 * wall, "cpu_ms": 1e3 * cpu, "loss": loss, "norm": norm,
                      "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "peak_activations": peak_of_allocations(profiler) if profiles else None}), flush=True)

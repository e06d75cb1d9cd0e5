"""sharded_torch.py MODEL_FOLDER ROWS KIND WAY PRECISION STEPS: PyTorch's side of sharded.py, one process per rank.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the environment. KIND is ddp or fsdp2, over gloo; WAY is eager or
compiled (torch.compile of the model in DDP, of each layer in FSDP2); ROWS has the
token ids of every row of every step, which the ranks share out as `trainer` does. Rank 0 prints a JSON line per step.
"""

import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

folder, rows, kind, way, precision, steps = sys.argv[1:7]
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
transformers.logging.set_verbosity_error()
with open(rows) as file:
    tokens = torch.tensor([json.loads(line)["input_ids"] for line in file])
batches = tokens.view(int(steps), world, -1, tokens.shape[1])[:, rank]
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
model.config.use_cache = False
model.train()
autocast = contextlib.nullcontext()
if kind == "ddp":
    model = DistributedDataParallel(model)
    if way == "compiled":
        model.compile()
    if precision == "bf16":
        autocast = torch.autocast("cpu", torch.bfloat16)
else:
    mesh = dist.init_device_mesh("cpu", (world,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if precision == "bf16" \
        else MixedPrecisionPolicy()
    for layer in model.model.layers:
        if way == "compiled":
            layer.compile()
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0, foreach=True)


def peak_rss():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


for batch in batches:
    dist.barrier()
    start = time.perf_counter()
    with autocast:
        loss = model(input_ids=batch, labels=batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    seconds = time.perf_counter() - start
    total = torch.tensor([loss.item() / world, seconds])
    dist.all_reduce(total)
    peaks = [None] * world
    dist.all_gather_object(peaks, peak_rss())
    if rank == 0:
        print(json.dumps({"loss": total[0].item(), "seconds": seconds, "peak_rss": max(peaks)}), flush=True)
dist.barrier()
os._exit(0)  # gloo's threads end some processes with an abort while the interpreter is taken apart

"""The collectives of collectives.cpp through torch.distributed over gloo; run under torchrun."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
size = dist.get_world_size()
repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10


def median_ms(operation):
    times = []
    for i in range(repetitions + 2):
        dist.barrier()
        start = time.perf_counter()
        operation()
        if i >= 2:
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


for mib in (16, 64):
    whole = torch.ones(mib << 18)
    part = torch.ones((mib << 18) // size)
    for name, operation in (
        ("all_reduce", lambda: dist.all_reduce(whole)),
        ("reduce_scatter", lambda: dist.reduce_scatter_tensor(part, whole)),
        ("all_gather", lambda: dist.all_gather_into_tensor(whole, part)),
    ):
        ms = median_ms(operation)
        if dist.get_rank() == 0:
            print(json.dumps({"operation": name, "mib": mib, "ranks": size, "ms": ms}), flush=True)
dist.destroy_process_group()

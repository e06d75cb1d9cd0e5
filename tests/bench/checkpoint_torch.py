"""torchrun --nproc-per-node N checkpoint_torch.py FOLDER MILLIONS ROUNDS: the same state with what people use today.

Prints one line of JSON for each round and way: seconds until training goes on (stall) and until the bytes are on the
disk (durable). gather: every tensor whole on rank 0, torch.save, fsync. sync and async: torch.distributed.checkpoint
of DTensors, whose writer calls fsync.
"""

import json
import os
import shutil
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

BLOCKS = 8


def make_state(millions, mesh):
    width = int((millions * 1e6 / (12 * BLOCKS)) ** 0.5)
    rows = {"q": width, "k": width, "v": width, "o": width, "gate": 8 * width // 3, "up": 8 * width // 3,
            "down": 8 * width // 3}
    state = {}
    for kind in ("model", "exp_avg", "exp_avg_sq"):
        for block in range(BLOCKS):
            for name, count in rows.items():
                whole = (count // dist.get_world_size()) * dist.get_world_size()
                local = torch.rand(whole // dist.get_world_size(), width)
                state[f"{kind}.layers.{block}.{name}"] = DTensor.from_local(local, mesh, [Shard(0)])
    return state


def flush_all(folder):
    for base, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(base, name), "rb") as file:
                os.fsync(file.fileno())


def gathered(state, folder):
    begin = time.perf_counter()
    whole = {}
    for name, tensor in state.items():
        local = tensor.to_local()
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
        dist.gather(local, parts)
        if parts:
            whole[name] = torch.cat(parts)
    if dist.get_rank() == 0:
        os.makedirs(folder)
        with open(os.path.join(folder, "state.pt"), "wb") as file:
            torch.save(whole, file)
            file.flush()
            os.fsync(file.fileno())
    dist.barrier()
    end = time.perf_counter() - begin
    return end, end


def synchronous(state, folder):
    begin = time.perf_counter()
    dcp.save(state, checkpoint_id=folder)
    dist.barrier()
    end = time.perf_counter() - begin
    return end, end


def asynchronous(state, folder):
    begin = time.perf_counter()
    future = dcp.async_save(state, checkpoint_id=folder)
    stall = time.perf_counter() - begin
    future.result()
    dist.barrier()
    return stall, time.perf_counter() - begin


def main():
    folder, millions, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = make_state(millions, mesh)
    size = sum(tensor.numel() * 4 for tensor in state.values())
    for count in range(rounds + 1):  # the first one warms up
        for name, save in (("gather", gathered), ("sync", synchronous), ("async", asynchronous)):
            place = os.path.join(folder, name)
            dist.barrier()
            stall, durable = save(state, place)
            slowest = torch.tensor([stall, durable])
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if dist.get_rank() == 0:
                if count > 0:
                    print(json.dumps({"way": name, "bytes": size, "ranks": dist.get_world_size(),
                                      "stall_s": slowest[0].item(), "durable_s": slowest[1].item()}), flush=True)
                shutil.rmtree(place)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

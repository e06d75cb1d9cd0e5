"""attention_torch.py TOKENS QUERY_HEADS KEY_HEADS HEAD_DIM fp32|bf16 REPETITIONS, under torch.distributed.run: PyTorch's templates of ring
attention with load balance, around its attention for CPUs; forward and backward. Key heads are repeated beforehand, as the
operator wants it. Prints one line of JSON for each repetition after the first: seconds of the slowest rank."""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.tensor.experimental._context_parallel import _attention as templates

tokens, query_heads, key_heads, head_dim = map(int, sys.argv[1:5])
kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[sys.argv[5]]
torch.set_num_threads(1)
dist.init_process_group("gloo")
group, size = dist.group.WORLD, dist.get_world_size()
templates._cp_options.enable_load_balance = size > 1


def forward(query, key, value, is_causal, **_):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, is_causal)


def backward(grad_out, query, key, value, out, logsumexp, is_causal, **_):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_out, query, key, value, out, logsumexp, 0.0, is_causal)


def numbers():
    return torch.randn(1, query_heads, tokens // size, head_dim).to(kind)


def slowest(seconds):
    latest = torch.tensor([seconds])
    dist.all_reduce(latest, dist.ReduceOp.MAX)
    return latest.item()


query, key, value, grad_out = numbers(), numbers(), numbers(), numbers()
with torch.no_grad():
    for repetition in range(int(sys.argv[6]) + 1):
        dist.barrier()
        begin = time.perf_counter()
        out, logsumexp = templates._templated_ring_attention(group, 2, forward, query, key, value, is_causal=True)
        middle = slowest(time.perf_counter() - begin)
        templates._templated_ring_attention_backward(group, 2, backward, grad_out, "grad_out", query, key, value, out,
                                                     logsumexp, is_causal=True)
        both = slowest(time.perf_counter() - begin)
        if dist.get_rank() == 0 and repetition > 0:
            print(json.dumps({"forward_s": middle, "seconds": both}), flush=True)
dist.barrier()  # nobody leaves while another still talks to it
dist.destroy_process_group()

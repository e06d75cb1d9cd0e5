"""delta_rule_torch.py TOKENS KEY_HEADS VALUE_HEADS HEAD_DIM THREADS REPETITIONS: the work of bench_delta_rule by transformers' chunked rule and
autograd. Prints the seconds of each repetition after the first."""

import sys
import time

import torch
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule as rule

tokens, key_heads, value_heads, width, threads, repetitions = map(int, sys.argv[1:])
torch.set_num_threads(threads)
q, k = (torch.randn(1, tokens, key_heads, width, requires_grad=True) for _ in range(2))
v = torch.randn(1, tokens, value_heads, width, requires_grad=True)
g = torch.rand(1, tokens, value_heads).mul(-0.1).requires_grad_()
beta = torch.rand(1, tokens, value_heads, requires_grad=True)
d_out = torch.randn(1, tokens, value_heads, width)
for repetition in range(repetitions + 1):
    begin = time.perf_counter()
    out, _ = rule(q, k, v, g=g, beta=beta, use_qk_l2norm_in_kernel=True)
    forward = time.perf_counter() - begin
    out.backward(d_out)
    if repetition > 0:
        print(f'{{"forward": {forward:.4f}, "both": {time.perf_counter() - begin:.4f}}}')

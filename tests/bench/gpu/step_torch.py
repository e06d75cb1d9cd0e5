"""step_torch.py CONFIG_JSON ROWS LENGTH CHECKPOINTING MOMENTS SECONDS eager|compiled: PyTorch's side of step.cpp.

transformers' model with sdpa attention and fused AdamW, on the first GPU. compiled: its layers and its loss by torch.compile. MOMENTS fp32: bf16 compute by
autocast over fp32 weights. bf16: all of the state in bf16, as a model is that was loaded so; fused AdamW has no other way
to moments in bf16. Where the rows do not fit the memory at once, half as many go through at a time, and so on.
Prints a line of JSON.
"""

import json
import sys
import time

import torch
import transformers

config_file, rows, length, checkpointing, moments, seconds, mode = sys.argv[1:8]
rows, length = int(rows), int(length)
state = torch.float32 if moments == "fp32" else torch.bfloat16
torch.manual_seed(1)
transformers.logging.set_verbosity_error()
with open(config_file) as file:
    content = json.load(file)
config = transformers.AutoConfig.for_model(content.pop("model_type"), **content)
with torch.device("cuda"):
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=state, attn_implementation="sdpa")
model.config.use_cache = False
model.train()
if checkpointing == "yes":
    model.gradient_checkpointing_enable({"use_reentrant": False})
if mode == "compiled":
    for layer in model.model.layers:
        layer.compile()
    model.loss_function = torch.compile(model.loss_function)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
tokens = torch.randint(config.vocab_size, (rows, length), device="cuda")


def step(at_a_time):
    total = 0.0
    for some in tokens.split(at_a_time):
        with torch.autocast("cuda", torch.bfloat16, enabled=state == torch.float32):
            loss = model(input_ids=some, labels=some).loss * (len(some) / rows)
        loss.backward()
        total = total + loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total.item()


at_a_time = rows
while True:
    try:
        loss = step(at_a_time)  # warms up
        break
    except torch.OutOfMemoryError:
        if at_a_time == 1:
            raise
    at_a_time //= 2
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()

times, begin = [], time.perf_counter()
while len(times) < 2 or time.perf_counter() - begin < float(seconds):
    start = time.perf_counter()
    loss = step(at_a_time)
    torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
times.sort()
print(json.dumps({"tokens_per_step": rows * length, "rows_at_a_time": at_a_time, "state": moments, "mode": mode, "steps": len(times) + 1,
                  "seconds": times[len(times) // 2], "tokens_per_second": rows * length / times[len(times) // 2],
                  "loss": loss, "peak_tensors": torch.cuda.max_memory_allocated(),
                  "peak_allocator": torch.cuda.max_memory_reserved()}))

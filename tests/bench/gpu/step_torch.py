"""step_torch.py CONFIG_JSON ROWS LENGTH CHECKPOINTING SECONDS: PyTorch's side of step.cpp.

transformers' model in eager mode, bf16 compute by autocast over fp32 weights, sdpa attention, fused AdamW, on the first
GPU. Prints a line of JSON.
"""

import json
import sys
import time

import torch
import transformers

config_file, rows, length, checkpointing, seconds = sys.argv[1:6]
rows, length = int(rows), int(length)
torch.manual_seed(1)
transformers.logging.set_verbosity_error()
with open(config_file) as file:
    content = json.load(file)
config = transformers.AutoConfig.for_model(content.pop("model_type"), **content)
with torch.device("cuda"):
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
model.config.use_cache = False
model.train()
if checkpointing == "yes":
    model.gradient_checkpointing_enable({"use_reentrant": False})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
tokens = torch.randint(config.vocab_size, (rows, length), device="cuda")


def step():
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


times, begin = [], time.perf_counter()
while len(times) < 3 or time.perf_counter() - begin < float(seconds):
    start = time.perf_counter()
    loss = step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
times = sorted(times[1:])
print(json.dumps({"tokens_per_step": rows * length, "steps": len(times) + 1, "seconds": times[len(times) // 2],
                  "tokens_per_second": rows * length / times[len(times) // 2], "loss": loss,
                  "peak_tensors": torch.cuda.max_memory_allocated(), "peak_allocator": torch.cuda.max_memory_reserved()}))

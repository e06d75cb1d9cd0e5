"""Training with frozen tensors, in fp32, by transformers' model, autograd and torch's AdamW.

    python frozen.py --out tests/parity/data

What is frozen has requires_grad False; the loss of a step is the mean over the targets of all its rows. Writes
frozen/rows.jsonl and frozen/trace.json: the numbers of each step, and of each tensor at the end its norm and its product
with cos(0), cos(1), ... Rows are visited in their order, four to a step, and clipped at 0.5.
"""
import argparse
import json
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

MODEL, STEPS, ROWS_PER_STEP, RATE, DECAY, CLIP = "qwen2-tiny", 5, 4, 2e-3, 0.1, 0.5
# By --freeze and --train_only.
CASES = {"layers and tensors inside layers": [r"model\.layers\.0\.|layers\.1\.mlp\.(gate|up)_proj|layernorm|q_proj\.bias|[kv]_proj\.bias", ""],
         "the embedding": ["embed_tokens", ""],
         "all but a layer above": ["", r"layers\.1\.(self_attn|post_attention_layernorm)|^model\.norm"],
         "both": [r"o_proj", r"layers\.[01]\.self_attn"]}


def is_trained(name, freeze, train_only):
    return not (freeze and re.search(freeze, name)) and bool(not train_only or re.search(train_only, name))


def summary(tensor):
    flat = tensor.detach().double().flatten()
    return [flat.norm().item(), (flat * torch.arange(flat.numel(), dtype=torch.float64).cos()).sum().item()]


def train(folder, rows, freeze, train_only):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    for name, parameter in model.named_parameters():
        parameter.requires_grad = is_trained(name, freeze, train_only)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": [p for p in trained if p.dim() > 1], "weight_decay": DECAY},
                                   {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}], lr=RATE)
    steps = []
    for step in range(STEPS):
        batch = rows[step * ROWS_PER_STEP:(step + 1) * ROWS_PER_STEP]
        targets = sum(len(ids) - 1 for ids in batch)
        loss_of_step = 0.0
        for row in batch:
            ids = torch.tensor([row])
            loss = F.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="sum") / targets
            loss.backward()
            loss_of_step += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(trained, CLIP).item()
        optimizer.step()
        optimizer.zero_grad()
        steps.append({"loss": loss_of_step, "grad_norm": norm})
    return {"freeze": freeze, "train_only": train_only, "steps": steps,
            "trained": sorted(name for name, p in model.named_parameters() if p.requires_grad),
            "tensors": {name: summary(p) for name, p in model.named_parameters()}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = Path(parser.parse_args().out)
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(11)
    rows = []
    for _ in range(STEPS * ROWS_PER_STEP):
        length = int(torch.randint(5, 48, (1,), generator=random))
        rows.append(torch.randint(3, 480, (length,), generator=random).tolist())
    (out / "frozen").mkdir(exist_ok=True)
    (out / "frozen" / "rows.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    trace = {"model": MODEL, "learning_rate": RATE, "weight_decay": DECAY, "max_grad_norm": CLIP, "rows_per_step": ROWS_PER_STEP,
             "cases": {name: train(out / "models" / MODEL, rows, *case) for name, case in CASES.items()}}
    (out / "frozen" / "trace.json").write_text(json.dumps(trace, indent=1) + "\n")

"""Training on tokens with weights, in fp32, by transformers' model, autograd and torch's AdamW.

    python weighted.py --out tests/parity/data

Loss of a step: the sum of weight x cross-entropy over the targets of all rows, divided by the sum of their weights. Writes
weighted/rows.jsonl and weighted/trace.json. Rows are visited in their order, four to a step, and clipped at 0.5.
"""
import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

MODEL, STEPS, ROWS_PER_STEP, RATE, DECAY, CLIP = "qwen3-tiny", 6, 4, 2e-3, 0.1, 0.5

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = Path(parser.parse_args().out)
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(7)
    model = AutoModelForCausalLM.from_pretrained(out / "models" / MODEL, dtype=torch.float32, attn_implementation="eager")
    rows = []
    for number in range(STEPS * ROWS_PER_STEP):
        length = int(torch.randint(5, 60, (1,), generator=random))
        ids = torch.randint(3, model.config.vocab_size, (length,), generator=random).tolist()
        # Weights that bf16 does not hold, zeros, and a row of ones in between.
        weights = [round(float(w), 3) for w in 2 * torch.rand(length, generator=random)]
        weights = [0.0 if i % 7 == number % 7 else w for i, w in enumerate(weights)]
        rows.append({"input_ids": ids, "weights": [1.0] * length if number % 5 == 0 else weights})
    (out / "weighted").mkdir(exist_ok=True)
    (out / "weighted" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}], lr=RATE)
    steps = []
    for step in range(STEPS):
        batch = rows[step * ROWS_PER_STEP:(step + 1) * ROWS_PER_STEP]
        total = sum(sum(row["weights"][1:]) for row in batch)
        loss_of_step, entropy, correct, targets = 0.0, 0.0, 0, 0
        for row in batch:
            ids, weights = torch.tensor([row["input_ids"]]), torch.tensor(row["weights"])
            logits = model(ids).logits[0, :-1]
            loss = (F.cross_entropy(logits, ids[0, 1:], reduction="none") * weights[1:]).sum() / total
            loss.backward()
            loss_of_step += loss.item()
            learned = weights[1:] > 0
            log_p = F.log_softmax(logits.detach(), -1)[learned]
            entropy += -(log_p.exp() * log_p).sum().item()
            correct += (log_p.argmax(-1) == ids[0, 1:][learned]).sum().item()
            targets += int(learned.sum())
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item()
        optimizer.step()
        optimizer.zero_grad()
        steps.append({"loss": loss_of_step, "grad_norm": norm, "entropy": entropy / targets, "mean_token_accuracy": correct / targets})
    trace = {"model": MODEL, "learning_rate": RATE, "weight_decay": DECAY, "max_grad_norm": CLIP, "rows_per_step": ROWS_PER_STEP, "steps": steps}
    with torch.no_grad():
        value, total = 0.0, 0.0
        for row in rows:
            ids, weights = torch.tensor([row["input_ids"]]), torch.tensor(row["weights"])
            value += (F.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="none") * weights[1:]).sum().item()
            total += weights[1:].sum().item()
    trace["eval_loss"] = value / total
    (out / "weighted" / "trace.json").write_text(json.dumps(trace, indent=1) + "\n")

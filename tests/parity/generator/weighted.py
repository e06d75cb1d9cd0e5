"""Training on tokens with weights, in fp32, by transformers' model, autograd and torch's AdamW.

    python weighted.py --out tests/parity/data

Loss of a step: the sum of weight x cross-entropy over the targets of all rows, divided by the sum of their weights. Writes
weighted/rows.jsonl and weighted/trace.json; and weighted/messages.jsonl and weighted/messages_trace.json, of conversations whose
messages and rows have weights, and of which the assistant's words are learned (--roles_to_train assistant), with the end of sequence
behind them. Rows are visited in their order, four to a step, and clipped at 0.5.
"""
import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL, STEPS, ROWS_PER_STEP, RATE, DECAY, CLIP = "qwen3-tiny", 6, 4, 2e-3, 0.1, 0.5



def token_rows(random, vocabulary):
    rows = []
    for number in range(STEPS * ROWS_PER_STEP):
        length = int(torch.randint(5, 60, (1,), generator=random))
        ids = torch.randint(3, vocabulary, (length,), generator=random).tolist()
        # Weights that bf16 does not hold, zeros, and a row of ones in between.
        weights = [round(float(w), 3) for w in 2 * torch.rand(length, generator=random)]
        weights = [0.0 if i % 7 == number % 7 else w for i, w in enumerate(weights)]
        rows.append({"input_ids": ids, "weights": [1.0] * length if number % 5 == 0 else weights})
    return rows


def conversations(random):
    def draw(most):
        return int(torch.randint(0, most, (1,), generator=random))
    rows = []
    for number in range(STEPS * ROWS_PER_STEP):
        messages = []
        for turn in range(2 + draw(3)):
            for role in ("user", "assistant"):
                words = " ".join(f"{role[0]}{turn}{chr(97 + draw(26))}" for _ in range(2 + draw(6)))
                messages.append({"role": role, "content": words})
            if draw(2):
                messages[-1]["weight"] = (0, 0.25, 1.7, 3)[draw(4)]
            if draw(4) == 0:
                messages[-2 + draw(2)]["train"] = bool(draw(2))
        messages[1].pop("weight", None)
        messages[1]["train"] = True  # so that something is learned
        rows.append({"messages": messages} | ({"weight": (0.3, 2)[draw(2)]} if draw(3) == 0 else {}))
    return rows


# As tokens with weights: the words of a message, which stand in the rendering once, and the end of sequence behind them.
def as_tokens(tokenizer, row):
    text = tokenizer.apply_chat_template(row["messages"], tokenize=False)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, weights = encoded["input_ids"], [0.0] * len(encoded["input_ids"])
    for message in row["messages"]:
        is_learned = message.get("train", message["role"] == "assistant")
        begin = text.index(message["content"])
        assert text.find(message["content"], begin + 1) == -1
        end = begin + len(message["content"])
        inside = [i for i, (first, last) in enumerate(encoded["offset_mapping"]) if first < end and last > begin]
        behind = inside[-1] + 1
        assert ids[behind] == tokenizer.eos_token_id
        for i in [*inside, behind] if is_learned else []:
            weights[i] = message.get("weight", 1) * row.get("weight", 1)
    return {"input_ids": ids, "weights": weights}


def write_lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def train(folder, rows):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
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
    return json.dumps(trace, indent=1) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = Path(parser.parse_args().out)
    torch.set_num_threads(1)
    folder = out / "models" / MODEL
    tokenizer = AutoTokenizer.from_pretrained(folder)
    (out / "weighted").mkdir(exist_ok=True)
    rows = token_rows(torch.Generator().manual_seed(7), json.loads((folder / "config.json").read_text())["vocab_size"])
    write_lines(out / "weighted" / "rows.jsonl", rows)
    (out / "weighted" / "trace.json").write_text(train(folder, rows))
    chats = conversations(torch.Generator().manual_seed(8))
    write_lines(out / "weighted" / "messages.jsonl", chats)
    (out / "weighted" / "messages_trace.json").write_text(train(folder, [as_tokens(tokenizer, row) for row in chats]))

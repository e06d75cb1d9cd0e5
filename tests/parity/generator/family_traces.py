"""Runs of TRL's SFTTrainer on tiny models of nine families, 20 steps each, one JSON file each.

    .deps/venv/bin/python tests/parity/generator/family_traces.py --data tests/parity/data

The models are those of families.py with a larger vocabulary; their weights follow from names."""
import argparse
import json
import pathlib
import shutil
import tempfile

import torch
from datasets import load_dataset
from transformers import AutoConfig, AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

from families import fill
from family_configs import CONFIGS

FAMILIES = {"smollm3": {}, "granite": {}, "glm4": {}, "olmo3": {"packing": True}, "gemma3": {"packing": True}, "cohere2": {"packing": True},
            "qwen3_5": {},
            "qwen3_moe": {"packing": True, "max_steps": 10}, "olmoe": {}}  # later a token is as near to two experts as rounding
ARGS = dict(bf16=False, max_steps=20, max_length=64, per_device_train_batch_size=4, learning_rate=2e-3, weight_decay=0.1, logging_steps=1,
            save_strategy="no", seed=42, gradient_checkpointing=False)
HARNESS = dict(use_cpu=True, report_to="none", disable_tqdm=True, dataloader_pin_memory=False)
KEPT = ("loss", "grad_norm", "learning_rate", "entropy", "mean_token_accuracy", "num_tokens", "epoch")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def make(family, data):
    torch.set_num_threads(1)
    config = AutoConfig.for_model(**CONFIGS[family], vocab_size=512)
    config.pad_token_id = 0
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    tensors = fill(model)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="family-trace-"))
    model.save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(data / "models" / "qwen2-tiny" / name, folder)
    args = {**ARGS, **FAMILIES[family]}
    rows = load_dataset("json", data_files=str(data / "rows" / "pretokenized.jsonl"), split="train", cache_dir=str(folder / "cache"))
    trainer = SFTTrainer(model=str(folder), args=SFTConfig(output_dir=str(folder / "out"), **args, **HARNESS), train_dataset=rows)
    trainer.train()
    kept = KEPT + (("aux_loss",) if hasattr(config, "router_aux_loss_coef") else ())
    steps = [{key: row[key] for key in kept} for row in trainer.state.log_history if "loss" in row]
    written = json.loads((folder / "config.json").read_text())
    written.pop("transformers_version", None)
    shutil.rmtree(folder)
    return {"config": written, "tensors": tensors, "args": args, "steps": steps}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    data = args.data.resolve()
    (data / "family_traces").mkdir(exist_ok=True)
    for family in args.names or FAMILIES:
        trace = make(family, data)
        (data / "family_traces" / f"{family}.json").write_text(json.dumps(trace, separators=(",", ":")) + "\n")
        print(family, trace["steps"][0]["loss"], trace["steps"][-1]["loss"], flush=True)


if __name__ == "__main__":
    main()

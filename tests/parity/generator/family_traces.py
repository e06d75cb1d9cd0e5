"""Runs of TRL's SFTTrainer on tiny models of twenty-two families, 20 steps each, one JSON file each.

    .deps/venv/bin/python tests/parity/generator/family_traces.py --data tests/parity/data

The models are those of families.py with a larger vocabulary; their weights follow from names. So do those of adapters, which
PEFT has beside the matrices of all experts of a block (target_parameters); their last values are kept as a norm and a product.
`residual` is a run in bf16, by autocast, of a model of 16 blocks whose embeddings are 256 times as large: the branches of blocks add
little to rows, as in trained models, so that rounding of the rows matters. It goes into residual/."""
import argparse
import json
import pathlib
import shutil
import tempfile

import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from families import fill, numbers
from family_configs import CONFIGS, of_vocabulary

FAMILIES = {"smollm3": {}, "granite": {}, "glm4": {}, "olmo3": {"packing": True}, "gemma3": {"packing": True}, "cohere2": {"packing": True},
            "qwen3_5": {}, "bamba": {}, "lfm2": {}, "falcon_h1": {}, "deepseek_v3": {"packing": True, "max_steps": 6},
            "nemotron_h": {"max_steps": 6}, "kimi_linear": {"max_steps": 6}, "gemma4": {"packing": True}, "gemma4-per-layer": {"packing": True},
            "apertus": {}, "gpt_oss": {},
            "qwen3_moe": {"packing": True, "max_steps": 10}, "olmoe": {},
            "glm4_moe": {"max_steps": 6}, "ernie4_5_moe": {"max_steps": 6}}  # later a token is as near to two experts as rounding
# By name: the family and its arguments.
SETTINGS = {"olmoe-router_aux_loss_coef": ("olmoe", {"max_steps": 6, "router_aux_loss_coef": 0.2}),
            "mixtral-no-aux-loss": ("mixtral", {"max_steps": 4, "router_aux_loss_coef": 0.0})}
# By name: the family, its arguments and fields of its config.json: no layer has experts, whose choices end the traces of these early.
DENSE = {"deepseek_v3-dense": ("deepseek_v3", {"packing": True}, {"first_k_dense_replace": 2}),
         "kimi_linear-dense": ("kimi_linear", {}, {"mlp_layer_types": ["dense"] * 3}),
         "mimo_v2_flash-dense": ("mimo_v2_flash", {"packing": True}, {"mlp_layer_types": ["dense"] * 4}),
         "nemotron_h-dense": ("nemotron_h", {}, {"layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp"]})}
# By name: the family, its arguments and PEFT's settings. PEFT adds its own targets for mixtral, and none for qwen3_moe.
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
ADAPTERS = {
    "qwen3_moe-experts": ("qwen3_moe", {"packing": True}, dict(target_parameters=EXPERTS, rank_pattern={"down_proj": 3})),
    "mixtral-experts": ("mixtral", {}, dict(target_parameters=["experts.down_proj", "o_proj.weight"])),
    "gpt_oss-experts": ("gpt_oss", {"max_steps": 10},
                        dict(target_modules=["q_proj"], target_parameters=[*EXPERTS, "mlp.router.weight"], rank_pattern={"gate_up_proj": 3})),
    # all-linear is the router and the experts too.
    "mixtral-all-linear": ("mixtral", {"max_steps": 10, "router_aux_loss_coef": 0.0}, dict(target_modules="all-linear")),
    "qwen3_moe-all-linear": ("qwen3_moe-dense-layers", {"packing": True, "max_steps": 10}, dict(target_modules="all-linear")),
}
RESIDUAL = ("smollm3", {"bf16": True}, {"num_hidden_layers": 16, "tie_word_embeddings": False, "no_rope_layers": None, "layer_types": None}, 256)
ARGS = dict(bf16=False, max_steps=20, max_length=64, per_device_train_batch_size=4, learning_rate=2e-3, weight_decay=0.1, logging_steps=1,
            save_strategy="no", seed=42, gradient_checkpointing=False)
HARNESS = dict(use_cpu=True, report_to="none", disable_tqdm=True, dataloader_pin_memory=False)
KEPT = ("loss", "grad_norm", "learning_rate", "entropy", "mean_token_accuracy", "num_tokens", "epoch")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def fill_adapter(model):
    tensors = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.requires_grad:
                name = name.replace(".default.", ".")
                tensors[name] = {"shape": list(p.shape), "mean": 0.0, "spread": 0.2 if "lora_A" in name else 0.05}
                values = tensors[name]["spread"] * (2 * numbers(name, p.numel()) - 1)
                p.copy_(torch.from_numpy(values.astype("float32")).reshape(p.shape))
    return tensors


def summary(tensor):
    flat = tensor.double().flatten()
    return [flat.norm().item(), (flat * torch.cos(torch.arange(flat.numel(), dtype=torch.double))).sum().item()]


def adapt(folder, settings):
    """The model with an adapter, the values of this, and its configuration."""
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=8, lora_dropout=0.0, **settings))
    tensors = fill_adapter(model)
    model.save_pretrained(folder / "adapter")
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    for key in ("target_modules", "target_parameters"):
        config[key] = sorted(config[key]) if config[key] else config[key]
    return model, {"tensors": tensors, "config": config | {"base_model_name_or_path": ""}}


def make(family, data, extra, adapter=None, fields=None, embeddings=1):
    torch.set_num_threads(1)
    config = AutoConfig.for_model(**of_vocabulary({**CONFIGS[family], **(fields or {})}, 512))
    config.pad_token_id = 0
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    tensors = fill(model)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(embeddings)
    for name in ("model.embed_tokens.weight", "backbone.embeddings.weight"):
        if name in tensors:
            tensors[name]["spread"] *= embeddings
    folder = pathlib.Path(tempfile.mkdtemp(prefix="family-trace-"))
    model.save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(data / "models" / "qwen2-tiny" / name, folder)
    args = {**ARGS, **extra}
    rows = load_dataset("json", data_files=str(data / "rows" / "pretokenized.jsonl"), split="train", cache_dir=str(folder / "cache"))
    model, adapter = adapt(folder, adapter) if adapter else (str(folder), None)
    trainer = SFTTrainer(model=model, args=SFTConfig(output_dir=str(folder / "out"), **args, **HARNESS), train_dataset=rows,
                         processing_class=AutoTokenizer.from_pretrained(folder))
    trainer.train()
    kept = KEPT + (("aux_loss",) if hasattr(config, "router_aux_loss_coef") else ())
    steps = [{key: row[key] for key in kept if key in row} for row in trainer.state.log_history if "loss" in row]
    written = json.loads((folder / "config.json").read_text())
    written.pop("transformers_version", None)
    shutil.rmtree(folder)
    result = {"config": written, "tensors": tensors, "args": args, "steps": steps}
    if adapter:
        result["adapter"] = adapter
        result["adapter"]["final"] = {name.replace(".default.", "."): summary(p) for name, p in trainer.model.named_parameters()
                                      if p.requires_grad}
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    data = args.data.resolve()
    (data / "family_traces").mkdir(exist_ok=True)
    names = args.names or ["residual", *FAMILIES, *SETTINGS, *DENSE, *ADAPTERS]
    if "residual" in names:
        names.remove("residual")
        family, extra, fields, embeddings = RESIDUAL
        trace = make(family, data, extra, fields=fields, embeddings=embeddings)
        (data / "residual").mkdir(exist_ok=True)
        (data / "residual" / f"{family}.json").write_text(json.dumps(trace, separators=(",", ":")) + "\n")
    for family in names:
        if family in DENSE:
            name, extra, fields = DENSE[family]
            trace = make(name, data, extra, fields=fields)
        else:
            name, *wanted = ADAPTERS.get(family) or SETTINGS.get(family) or (family, FAMILIES[family])
            trace = make(name, data, *wanted)
        (data / "family_traces" / f"{family}.json").write_text(json.dumps(trace, separators=(",", ":")) + "\n")
        print(family, trace["steps"][0]["loss"], trace["steps"][-1]["loss"], flush=True)


if __name__ == "__main__":
    main()

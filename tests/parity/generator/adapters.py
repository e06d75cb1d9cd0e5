"""Training of adapters by TRL's SFTTrainer on PEFT models, on the CPU.

    python adapters.py --out tests/parity/data [--only CASE,...]

Reads models/, rows/ and chat/ under --out and writes adapters/ there:

    start/NAME/      an adapter as PEFT saves it, whose A and B (and magnitudes, and modules to save) are all random
    CASE.json        30 steps of SFTTrainer from one of them: settings in TRL's names, a line per step
    CASE.safetensors the adapter after the last step, as PEFT saves it; of a whole matrix (an embedding, an output layer)
                     each SPARSE-th row; of TAKEN, which begin as a part of the weights, as PEFT converts it: of twice the rank,
                     beside the whole weights

Lists in adapter_config.json are sorted here; PEFT writes sets in an order that changes from process to process.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import write_json  # noqa: E402

os.environ.setdefault("HF_DATASETS_CACHE", tempfile.gettempdir() + "/goldens-datasets-cache")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from peft.optimizers import create_loraplus_optimizer  # noqa: E402
from peft.utils.other import TrainableTokensWrapper  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

SPARSE = 16
ALL_LINEAR = ["all-linear"]

# By name: the model, and PEFT's settings beside r = 4 and lora_alpha = 8. A list of one name is one name in PEFT, a string is a
# regular expression or "all-linear".
STARTS = {
    "qwen2_qv": ("qwen2-tiny", dict(target_modules=["q_proj", "v_proj"])),
    "qwen2_rslora": ("qwen2-tiny", dict(target_modules=["q_proj", "v_proj"], use_rslora=True)),
    "qwen2_dora": ("qwen2-tiny", dict(target_modules=["q_proj", "v_proj", "down_proj"], use_dora=True)),
    "qwen2_embed_tokens": ("qwen2-tiny", dict(target_modules=["q_proj", "v_proj"], modules_to_save=["embed_tokens"])),
    "qwen3_all": ("qwen3-tiny", dict(target_modules="all-linear")),
    "qwen3_patterns": ("qwen3-tiny", dict(target_modules=["q_proj", "v_proj", "up_proj"], layers_to_transform=[0, 2],
                                          rank_pattern={"up_proj": 2, r"layers\.2\.self_attn\.q_proj": 6},
                                          alpha_pattern={r"layers\.0\..*": 12, "v_proj": 5})),
    "llama3_all": ("llama3-tiny", dict(target_modules="all-linear")),
    "llama3_lm_head": ("llama3-tiny", dict(target_modules=["q_proj", "v_proj"], modules_to_save=["lm_head"])),
    # The bias of k_proj stays as it is.
    "qwen2_lora_only": ("qwen2-tiny", dict(target_modules=["q_proj", "v_proj", "down_proj"], bias="lora_only")),
    "qwen2_all_biases": ("qwen2-tiny", dict(target_modules=["v_proj", "up_proj"], bias="all", use_dora=True)),
    # A bias of B; the rank of v_proj is above both sides of its matrix.
    "qwen2_lora_bias": ("qwen2-tiny", dict(target_modules=["q_proj", "v_proj", "down_proj"], lora_bias=True, rank_pattern={"v_proj": 70})),
    # The output layer; PEFT would write the frozen embeddings beside it. That of qwen2-tiny is tied to the embedding.
    "llama3_head": ("llama3-tiny", dict(target_modules=["q_proj", "lm_head"], rank_pattern={"lm_head": 6})),
    "qwen2_head": ("qwen2-tiny", dict(target_modules=["v_proj", "lm_head"])),
    "llama3_head_dora": ("llama3-tiny", dict(target_modules=["q_proj", "lm_head"], use_dora=True)),
    # The embedding, whose A and B PEFT keeps as matrices without a layer. That of qwen2-tiny is tied to the output layer, which stays
    # the base's.
    "llama3_embedding": ("llama3-tiny", dict(target_modules=["q_proj", "embed_tokens"], rank_pattern={"embed_tokens": 6})),
    "qwen2_embedding": ("qwen2-tiny", dict(target_modules=["v_proj", "embed_tokens"], use_rslora=True)),
    # Rows of the embedding; those of a tied one are the output layer's too, unless it has others.
    "llama3_rows": ("llama3-tiny", dict(target_modules=["q_proj"], trainable_token_indices=[264, 16, 280, 499])),
    "llama3_rows_of_both": ("llama3-tiny", dict(target_modules=["q_proj"], trainable_token_indices={"lm_head": [16, 289],
                                                                                                   "embed_tokens": [264, 16, 280]})),
    "qwen2_rows": ("qwen2-tiny", dict(target_modules=["v_proj"], trainable_token_indices=[11, 3, 267])),
}

# The same, of adapters that PEFT takes out of the weights when a run begins: they have no folder to start from.
TAKEN = {
    "qwen3_pissa": ("qwen3-tiny", dict(target_modules=["q_proj", "up_proj", "down_proj"], init_lora_weights="pissa")),
    "qwen2_olora": ("qwen2-tiny", dict(target_modules=["q_proj", "v_proj"], init_lora_weights="olora", use_rslora=True)),
}

BASE = dict(bf16=False, use_cpu=True, gradient_checkpointing=False, report_to="none", logging_steps=1, logging_nan_inf_filter=False,
            save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False, learning_rate=1e-3, seed=42, max_steps=30,
            per_device_train_batch_size=4)
CHAT, SHORT, COMPLETION = "data/chat.jsonl", "data/short.jsonl", "data/prompt_completion_chat.jsonl"
HEADERS = dict(chat_template_path="chat/templates/headers_generation.jinja")
PACKED = dict(packing=True, packing_strategy="bfd", max_length=128, **HEADERS)


def case(start, data, dtype="float32", **args):
    return {"start": start, "data": data, "dtype": dtype, "args": {**BASE, **args}}


CASES = {
    "qwen2": case("qwen2_qv", CHAT),
    "qwen3": case("qwen3_all", COMPLETION),
    "llama3_packed": case("llama3_all", SHORT, **PACKED),
    "rslora": case("qwen2_rslora", CHAT),
    # SFTTrainer decays a parameter by its name: A, B, matrices to save, and the magnitudes of DoRA, which are vectors.
    "dora": case("qwen2_dora", CHAT, weight_decay=0.1),
    "dora_bf16": case("qwen2_dora", CHAT, weight_decay=0.1, bf16=True),
    "lm_head": case("llama3_lm_head", SHORT, weight_decay=0.1, **HEADERS),
    # The embedding of qwen2-tiny is tied to its output layer: the trained copy is not, the output layer stays the base's.
    "embed_tokens": case("qwen2_embed_tokens", CHAT),
    "patterns": case("qwen3_patterns", COMPLETION, lr_scheduler_type="cosine", warmup_steps=5),
    # PEFT's groups of LoRA+: the output layer has the rate of A; of DoRA the magnitudes have that of B.
    "loraplus": case("llama3_lm_head", SHORT, weight_decay=0.1, loraplus_lr_ratio=8, **HEADERS),
    "loraplus_dora": case("qwen2_dora", CHAT, weight_decay=0.1, loraplus_lr_ratio=4),
    # Biases do not decay; with LoRA+ they have the rate of B.
    "lora_only": case("qwen2_lora_only", CHAT, weight_decay=0.1),
    "all_biases": case("qwen2_all_biases", CHAT, weight_decay=0.1, loraplus_lr_ratio=4),
    # The bias of B does not decay, and with LoRA+ has the rate of B.
    "lora_bias": case("qwen2_lora_bias", CHAT, weight_decay=0.1, loraplus_lr_ratio=4),
    # SFTTrainer refuses these, since its own loss passes by the adapter of the output layer; that of label smoothing does not.
    "head": case("llama3_head", SHORT, weight_decay=0.1, label_smoothing_factor=0.1, **HEADERS),
    "tied_head": case("qwen2_head", CHAT, loraplus_lr_ratio=4, label_smoothing_factor=0.1),
    "head_dora": case("llama3_head_dora", SHORT, weight_decay=0.1, label_smoothing_factor=0.1, **HEADERS),
    "embedding": case("llama3_embedding", SHORT, weight_decay=0.1, **HEADERS),
    "tied_embedding": case("qwen2_embedding", CHAT),
    "rows": case("llama3_rows", SHORT, weight_decay=0.1, loraplus_lr_ratio=4, **HEADERS),
    "rows_of_both": case("llama3_rows_of_both", SHORT, **PACKED),
    "tied_rows": case("qwen2_rows", CHAT, weight_decay=0.1),
    # The last window of an epoch has one micro-batch.
    "accumulation_packed": case("llama3_all", SHORT, **{**PACKED, "per_device_train_batch_size": 5, "gradient_accumulation_steps": 2}),
    "pissa": case("qwen3_pissa", COMPLETION),
    "olora": case("qwen2_olora", CHAT),
    "bf16": case("qwen3_all", COMPLETION, bf16=True),
    "bf16_base": case("qwen2_qv", CHAT, dtype="bfloat16", bf16=True),
}


def load_base(model, dtype="float32"):
    return AutoModelForCausalLM.from_pretrained(f"models/{model}", dtype=getattr(torch, dtype))


def save(model, folder):
    """Saves as PEFT does, without its README.md, and with sorted lists."""
    model.save_pretrained(folder, save_embedding_layers=False)
    (folder / "README.md").unlink()
    config = json.loads((folder / "adapter_config.json").read_text())
    for key in ("target_modules", "exclude_modules", "modules_to_save"):
        if isinstance(config[key], list):
            config[key].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True))
    (folder / "adapter_model.safetensors").chmod(0o644)


def make_start(name, out):
    base, settings = STARTS[name]
    model = get_peft_model(load_base(base), LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, lora_dropout=0.0, **settings))
    random = torch.Generator().manual_seed(20261 + list(STARTS).index(name))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=random)
                if "lora_magnitude_vector" in parameter_name:
                    parameter.mul_(1 + 0.05 * noise)
                elif any(part in parameter_name for part in ("modules_to_save", "trainable_tokens_delta")) or parameter_name.endswith(".bias"):
                    parameter.add_(0.01 * noise)
                else:
                    parameter.copy_((0.1 if "lora_A" in parameter_name or "lora_embedding" in parameter_name else 0.05) * noise)
    save(model, out / "start" / name)


def settings_of(start, dtype):
    """The settings of a starting adapter in the names of TRL's ModelConfig, and those of PEFT that have no such name."""
    model, settings = {**STARTS, **TAKEN}[start]
    targets = settings["target_modules"]
    model_args = {"dtype": dtype, "use_peft": True, "lora_r": 4, "lora_alpha": 8, "lora_dropout": 0.0,
                  "lora_target_modules": [targets] if isinstance(targets, str) else targets}
    if "modules_to_save" in settings:
        model_args["lora_modules_to_save"] = settings["modules_to_save"]
    for key in ("use_rslora", "use_dora", "init_lora_weights"):
        if key in settings:
            model_args[key] = settings[key]
    rest = {key: settings[key] for key in ("layers_to_transform", "rank_pattern", "alpha_pattern", "bias", "lora_bias",
                                                      "trainable_token_indices") if key in settings}
    return model_args, rest


def read_rows(data):
    import datasets
    return datasets.load_dataset("json", data_files=f"rows/{Path(data).name}", split="train")


def begin_taken(base, settings, folder):
    """An adapter that is taken out of the weights of `base`, and saved. PEFT leaves W - scaling B0 A0 of a weight W."""
    weights = {key: value.clone() for key, value in base.state_dict().items()}
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, lora_dropout=0.0, **settings))
    model.save_pretrained(folder)
    for key, module in model.named_modules():
        if hasattr(module, "lora_A"):
            taken = module.scaling["default"] * module.lora_B["default"].weight @ module.lora_A["default"].weight
            whole = weights[key.removeprefix("base_model.model.") + ".weight"]
            assert (module.base_layer.weight + taken - whole).abs().max() < 1e-6, key
    return model


def run_case(name, out, attention="sdpa"):
    import trl.trainer.sft_trainer
    from trl import SFTConfig, SFTTrainer

    spec = CASES[name]
    if spec["args"].get("label_smoothing_factor"):
        trl.trainer.sft_trainer.BaseTunerLayer = type("NoLayer", (), {})  # of the check alone
    TrainableTokensWrapper.bias = None  # SFTTrainer's loss asks an output layer with rows for it
    is_taken = spec["start"] in TAKEN
    base_name, settings = {**STARTS, **TAKEN}[spec["start"]]
    initial = tempfile.mkdtemp(prefix="golden-initial-")
    base = AutoModelForCausalLM.from_pretrained(f"models/{base_name}", dtype=getattr(torch, spec["dtype"]), attn_implementation=attention)
    model = (begin_taken(base, settings, initial) if is_taken
             else PeftModel.from_pretrained(base, str(out / "start" / spec["start"]), is_trainable=True))
    frozen = {key: value.clone() for key, value in model.state_dict().items()}
    args = dict(spec["args"])
    ratio = args.pop("loraplus_lr_ratio", None)
    config = SFTConfig(output_dir=tempfile.mkdtemp(prefix="golden-run-"), **args)
    optimizer = ratio and create_loraplus_optimizer(
        model, torch.optim.AdamW, lr=config.learning_rate, loraplus_lr_ratio=ratio, loraplus_weight_decay=config.weight_decay,
        betas=(config.adam_beta1, config.adam_beta2), eps=config.adam_epsilon)
    trainer = SFTTrainer(model=model, args=config, train_dataset=read_rows(spec["data"]), optimizers=(optimizer, None),
                         processing_class=AutoTokenizer.from_pretrained(f"models/{base_name}"))
    trained = {key: value for key, value in trainer.model.named_parameters() if value.requires_grad}
    summary = trainer.train()
    decayed = {id(p) for group in trainer.optimizer.param_groups if group["weight_decay"] > 0 for p in group["params"]}
    for key, value in trainer.model.state_dict().items():
        is_tied = "lm_head.token_adapter" in key and base.config.tie_word_embeddings  # the rows of the embedding once more
        assert key in trained or is_tied or torch.equal(value, frozen[key]), key
    drop = ("runtime", "per_second", "flos")
    model_args, peft_args = settings_of(spec["start"], spec["dtype"])
    result = {
        "model": f"models/{base_name}", "data": spec["data"], "adapter": None if is_taken else f"adapters/start/{spec['start']}",
        "args": spec["args"],
        "model_args": model_args, "peft_args": peft_args, "world_size": 1, "rows": len(trainer.train_dataset),
        "dtypes": {"base": sorted({str(p.dtype) for p in model.parameters() if not p.requires_grad}),
                   "trained": sorted({str(p.dtype) for p in trained.values()})},
        "trained": sum(p.numel() for p in trained.values()), "decayed": sorted(key for key, p in trained.items() if id(p) in decayed),
        "steps": [row for row in trainer.state.log_history if "loss" in row],
        "final": {key: value for key, value in summary.metrics.items() if not any(d in key for d in drop)},
    }
    folder = Path(tempfile.mkdtemp(prefix="golden-adapter-"))
    trainer.model.save_pretrained(folder, save_embedding_layers=False, path_initial_model_for_weight_conversion=initial if is_taken else None)
    return result, load_file(folder / "adapter_model.safetensors")


def write_case(name, out):
    result, tensors = run_case(name, out)
    for key in tensors:
        if key.endswith(("embed_tokens.weight", "lm_head.weight")):
            tensors[key] = tensors[key][::SPARSE].contiguous()
    save_file(tensors, out / f"{name}.safetensors", metadata={"format": "pt"})
    (out / f"{name}.safetensors").chmod(0o644)
    write_json(out / f"{name}.json", result)
    first, last = result["steps"][0], result["steps"][-1]
    print(f"{name}: {len(result['steps'])} steps, {result['trained']} trained, loss {first['loss']:.4f} -> {last['loss']:.4f}, "
          f"norm {first['grad_norm']:.3f} -> {last['grad_norm']:.3f}", flush=True)


def report_noise(name, out):
    """Prints how far another order of sums (eager attention) takes the numbers: what a tolerance has to allow."""
    result, tensors = run_case(name, out)
    other, other_tensors = run_case(name, out, attention="eager")
    loss = max(abs(a["loss"] - b["loss"]) for a, b in zip(result["steps"], other["steps"]))
    norm = max(abs(a["grad_norm"] / b["grad_norm"] - 1) for a, b in zip(result["steps"], other["steps"]))
    far = {key: (tensors[key].double() - other_tensors[key].double()).abs().max().item() for key in tensors}
    worst = max(far, key=far.get)
    relative = max(((tensors[key].double() - other_tensors[key].double()).norm() / tensors[key].double().norm()).item() for key in tensors)
    print(f"{name}: loss {loss:.1e}, norm {norm:.1e} relative, tensors {far[worst]:.1e} ({worst}), {relative:.1e} relative l2", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--noise", action="store_true", help="print how far eager attention takes the numbers, write nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.chdir(args.out)  # so that paths in the files begin here
    where = Path("adapters")
    where.mkdir(exist_ok=True)
    if not args.noise and args.only == ",".join(CASES):
        shutil.rmtree(where / "start", ignore_errors=True)
    for which in STARTS:
        if not args.noise and not (where / "start" / which).exists():
            make_start(which, where)
    for which in args.only.split(","):
        (report_noise if args.noise else write_case)(which, where)

"""Writes deepspeed_files.json: what DeepSpeed reads in files that people share, after transformers has filled in "auto".

    pip install deepspeed (0.19.8 made the file that is kept) beside the packages of scripts/setup --oracles
    python deepspeed_oracle.py FOLDER deepspeed_files.json

FOLDER holds DeepSpeed files called <where it is from>__<name>.json. Of each the fields are written down, one path each, and
what they mean under TRL's defaults on one rank; or the error with which DeepSpeed ends.
"""
import glob
import inspect
import json
import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
from deepspeed.runtime import lr_schedules  # noqa: E402
from deepspeed.runtime.config import DeepSpeedConfig  # noqa: E402
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig  # noqa: E402
from trl import SFTConfig  # noqa: E402

NUM_STEPS = 100


class Model:
    class config:
        hidden_size = 64


def flat(value, path=""):
    if not isinstance(value, dict):
        return {path: value}
    out = {}
    for key, inner in value.items():
        out.update(flat(inner, f"{path}.{key}" if path else key))
    return out


def meaning(file):
    args = SFTConfig(output_dir="/tmp/oracle", use_cpu=True, max_steps=NUM_STEPS)
    hf = HfTrainerDeepSpeedConfig(json.loads(json.dumps(file)))
    hf.trainer_config_process(args)
    hf.mismatches = []  # the file against TRL's defaults: nobody gave those
    try:
        hf.trainer_config_finalize(args, Model, NUM_STEPS)
    except ValueError as error:
        if "mismatch" not in str(error):
            raise
    config = hf.config
    if "train_micro_batch_size_per_gpu" not in config:  # Accelerate takes it from the loader
        config["train_micro_batch_size_per_gpu"] = args.per_device_train_batch_size
    config["zero_optimization"] = {name: value for name, value in config.get("zero_optimization", {}).items() if name != "aio"}
    if config.get("amp", {}).get("enabled") == "auto":  # this release knows neither; those that did took no harm
        del config["amp"]
    read = DeepSpeedConfig(config)
    zero = read.zero_config
    means = {"zero_stage": int(zero.stage), "max_grad_norm": read.gradient_clipping,
             "per_device_train_batch_size": read.train_micro_batch_size_per_gpu, "gradient_accumulation_steps": read.gradient_accumulation_steps}
    for name, offload in (("optimizer", zero.offload_optimizer), ("param", zero.offload_param)):
        means[f"offload_{name}_device"] = str(getattr(offload.device, "value", offload.device)) if offload else "none"
        means[f"offload_{name}_nvme_path"] = str(offload.nvme_path) if offload and offload.nvme_path else None
    # Accelerate writes the type of the arguments into a file without a bf16 block.
    means["mixed_precision"] = "no" if "bf16" in config and not read.bfloat16_config.enabled else "bf16"
    if isinstance(file.get("train_batch_size"), int):
        means["train_batch_size"] = read.train_batch_size
    if read.optimizer_name:
        params = read.optimizer_params
        means["learning_rate"] = params.get("lr", 1e-3)
        means["adam_beta1"], means["adam_beta2"] = params.get("betas", (0.9, 0.999))
        means["adam_epsilon"] = params.get("eps", 1e-8)
        means["weight_decay"] = params.get("weight_decay", 0.0)
    if read.scheduler_name:
        defaults = {name: parameter.default for name, parameter in inspect.signature(getattr(lr_schedules, read.scheduler_name)).parameters.items()}
        said = {**defaults, **read.scheduler_params}
        means["lr_scheduler_type"] = read.scheduler_name
        means["learning_rate"] = said.get("warmup_max_lr") or means["learning_rate"]
        means["warmup_num_steps"] = max(2, said["warmup_num_steps"])
        kwargs = {name: said[name] for name in ("warmup_type", "warmup_min_lr", "warmup_min_ratio", "cos_min_ratio", "total_num_steps") if name in said}
        means["lr_scheduler_kwargs"] = kwargs
    return means


lines = []
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.json"))):
    with open(path) as opened:
        file = json.load(opened)
    line = {"name": os.path.basename(path)[:-len(".json")].replace("__", " "), "fields": flat(file)}
    try:
        line["means"] = meaning(file)
    except Exception as error:  # an end with an error is an answer of the original
        line["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    lines.append(json.dumps(line))
with open(sys.argv[2], "w") as out:
    out.write("[\n" + ",\n".join(lines) + "\n]\n")

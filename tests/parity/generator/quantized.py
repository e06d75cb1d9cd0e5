"""Training of adapters beside models in four and eight bits, by TRL's SFTTrainer, PEFT and bitsandbytes, on the CPU.

    python quantized.py --out tests/parity/data [--only CASE,...]

Reads what adapters.py reads and writes, and adds adapters/CASE.json and CASE.safetensors in its form. bitsandbytes works without its
native library, as in nf4.py. SFTTrainer casts the adapters of a quantised model to bf16, and AdamW then moves them in steps of bf16;
here they stay fp32, as PEFT makes them.
"""
import argparse
import ctypes
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
load_library = ctypes.cdll.LoadLibrary


def without_native_library(name):
    if "bitsandbytes" in str(name):
        raise OSError("left out")
    return load_library(name)


ctypes.cdll.LoadLibrary = without_native_library
sys.path.insert(0, str(Path(__file__).resolve().parent))
import adapters  # noqa: E402
import bitsandbytes  # noqa: E402
import torch  # noqa: E402
from adapters import CHAT, COMPLETION, PACKED, SHORT, case  # noqa: E402
from common import write_json  # noqa: E402
from peft import PeftModel  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig  # noqa: E402

PLAIN, NESTED = {"load_in_4bit": True}, {"load_in_4bit": True, "use_bnb_nested_quant": True}
EIGHT = {"load_in_8bit": True}
CASES = {
    "nf4": (case("qwen3_all", COMPLETION), PLAIN),
    "nf4_nested_packed": (case("llama3_all", SHORT, **PACKED), NESTED),
    "nf4_tied": (case("qwen2_qv", CHAT), PLAIN),
    "nf4_bf16": (case("qwen3_all", COMPLETION, bf16=True), NESTED),
    "nf4_dora": (case("qwen2_dora", CHAT, weight_decay=0.1), NESTED),
    "int8": (case("qwen2_qv", CHAT), EIGHT),
    "nf4_dora_bf16": (case("qwen2_dora", CHAT, weight_decay=0.1, bf16=True), PLAIN),
}


def run_case(name, out):
    from trl import SFTConfig, SFTTrainer

    spec, quantization = CASES[name]
    base_name = adapters.STARTS[spec["start"]][0]
    config = BitsAndBytesConfig(load_in_8bit=True) if quantization == EIGHT else \
        BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype="float32", bnb_4bit_quant_type="nf4",
                           bnb_4bit_use_double_quant="use_bnb_nested_quant" in quantization)
    base = AutoModelForCausalLM.from_pretrained(f"models/{base_name}", dtype=torch.float32, quantization_config=config)
    model = PeftModel.from_pretrained(base, str(out / "start" / spec["start"]), is_trainable=True)
    begun = {key: value.detach().clone() for key, value in model.named_parameters() if value.requires_grad}
    args = SFTConfig(output_dir=tempfile.mkdtemp(prefix="golden-run-"), **spec["args"])
    trainer = SFTTrainer(model=model, args=args, train_dataset=adapters.read_rows(spec["data"]),
                         processing_class=AutoTokenizer.from_pretrained(f"models/{base_name}"))
    for key, value in trainer.model.named_parameters():
        if value.requires_grad:
            value.data = begun[key]
    summary = trainer.train()
    quantized = sorted(key for key, value in trainer.model.named_modules() if isinstance(value, (bitsandbytes.nn.Linear4bit, bitsandbytes.nn.Linear8bitLt)))
    model_args, peft_args = adapters.settings_of(spec["start"], "float32")
    drop = ("runtime", "per_second", "flos")
    result = {
        "model": f"models/{base_name}", "data": spec["data"], "adapter": f"adapters/start/{spec['start']}", "args": spec["args"],
        "model_args": {**model_args, **quantization}, "peft_args": peft_args, "world_size": 1, "rows": len(trainer.train_dataset),
        "quantized": [key.replace("base_model.model.", "") for key in quantized],
        "steps": [row for row in trainer.state.log_history if "loss" in row],
        "final": {key: value for key, value in summary.metrics.items() if not any(d in key for d in drop)},
    }
    folder = Path(tempfile.mkdtemp(prefix="golden-adapter-"))
    trainer.model.save_pretrained(folder)
    return result, load_file(folder / "adapter_model.safetensors")


def write_case(name, out):
    result, tensors = run_case(name, out)
    save_file(tensors, out / f"{name}.safetensors", metadata={"format": "pt"})
    (out / f"{name}.safetensors").chmod(0o644)
    write_json(out / f"{name}.json", result)
    first, last = result["steps"][0], result["steps"][-1]
    print(f"{name}: {len(result['steps'])} steps, {len(result['quantized'])} quantised layers, loss {first['loss']:.4f} -> "
          f"{last['loss']:.4f}, norm {first['grad_norm']:.3f} -> {last['grad_norm']:.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default=",".join(CASES))
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.chdir(given.out)
    for which in given.only.split(","):
        write_case(which, Path("adapters"))

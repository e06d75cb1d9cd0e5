"""The modules that PEFT adapts by its settings, without weights.

    python adapter_targets.py --out tests/parity/data

Writes adapters/targets.json.gz: for each case the model, the settings of LoraConfig, and what PEFT makes of them: each adapted
module with its r and lora_alpha, the modules that are trained whole, the sorted target_modules that PEFT saves, its warnings;
or the error. Where an error or a warning shows a set, its names are sorted here. TRL's ModelConfig turns a list of one target
into a string, so its one name is a regular expression; a list here is a list in PEFT.
"""
import argparse
import json
import os
import re
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import common  # noqa: E402

import torch  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from peft.tuners.lora import LoraLayer  # noqa: E402
from peft.utils.other import ModulesToSaveWrapper  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

QV = ["q_proj", "v_proj"]
CASES = [
    # Lists: a whole name, or the end of a name behind a dot.
    {"target_modules": None},
    {"target_modules": QV},
    {"target_modules": ["q_proj"]},
    {"target_modules": ["k_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]},
    {"target_modules": ["self_attn.q_proj", "mlp.down_proj"]},
    {"target_modules": ["model.layers.1.self_attn.q_proj"]},
    {"target_modules": ["1.self_attn.q_proj", "model.layers.0.mlp.up_proj", "v_proj"]},
    {"target_modules": ["layers.0.self_attn.k_proj", "no_such_proj"]},
    {"target_modules": ["proj"]},
    {"target_modules": ["_proj"]},
    {"target_modules": ["q_proj", "lm_head"]},
    {"target_modules": ["q_proj", "embed_tokens"]},
    {"target_modules": ["self_attn"]},
    {"target_modules": ["q_proj", "input_layernorm"]},
    {"target_modules": [r".*q_proj"]},
    {"target_modules": ["Q_PROJ"]},
    {"target_modules": ["no_such_proj"]},
    {"target_modules": []},
    # Strings: "all-linear", or a regular expression that has to match a whole name.
    {"target_modules": "all-linear"},
    {"target_modules": "All-Linear"},
    {"target_modules": "all_linear"},
    {"target_modules": "q_proj"},
    {"target_modules": r".*\.q_proj"},
    {"target_modules": r".*(q|v)_proj"},
    {"target_modules": r"model\.layers\.[02]\.mlp\.(gate|up)_proj"},
    {"target_modules": r".*\.layers\.1\..*proj"},
    {"target_modules": r"layers\.1\..*proj"},
    {"target_modules": r".*self_attn.*"},
    {"target_modules": r"(?!.*layers\.0).*\.(k|o)_proj"},
    {"target_modules": r".*lm_head"},
    {"target_modules": r"*q_proj"},
    # Layers.
    {"target_modules": QV, "layers_to_transform": 1},
    {"target_modules": QV, "layers_to_transform": [0, 2]},
    {"target_modules": QV, "layers_to_transform": []},
    {"target_modules": QV, "layers_to_transform": [7]},
    {"target_modules": QV, "layers_to_transform": [0], "layers_pattern": "layers"},
    {"target_modules": QV, "layers_to_transform": [0], "layers_pattern": ["blocks", "layers"]},
    {"target_modules": QV, "layers_to_transform": [0], "layers_pattern": "h"},
    {"target_modules": ["model.layers.0.self_attn.q_proj", "v_proj"], "layers_to_transform": [1]},
    {"target_modules": "all-linear", "layers_to_transform": [0]},
    {"target_modules": QV, "layers_pattern": "layers"},
    # Ranks and alphas: the first pattern that matches the end of a name from a dot or from its beginning.
    {"target_modules": QV, "rank_pattern": {"q_proj": 2}},
    {"target_modules": QV, "rank_pattern": {r"layers\.1\.self_attn\.q_proj": 2, "q_proj": 6}},
    {"target_modules": QV, "rank_pattern": {"q_proj": 6, r"layers\.1\.self_attn\.q_proj": 2}},
    {"target_modules": QV, "rank_pattern": {r"^model\.layers\.0\..*": 3}, "alpha_pattern": {"v_proj": 32}},
    {"target_modules": QV, "rank_pattern": {"proj": 2}, "alpha_pattern": {r".*proj": 1}},
    {"target_modules": QV, "alpha_pattern": {r"(q|v)_proj": 5, "v_proj": 9}},
    {"target_modules": QV, "rank_pattern": {"k_proj": 2}},
    {"target_modules": "all-linear", "rank_pattern": {r"mlp\..*": 2}, "alpha_pattern": {r"layers\.[01]\..*": 3, "down_proj": 7}},
    {"target_modules": QV, "rank_pattern": {"q_proj": 0}},
    {"target_modules": QV, "rank_pattern": {"v_proj": 100}},
    {"target_modules": QV, "use_rslora": True, "alpha_pattern": {"q_proj": 5}},
    # Modules that are left out, or trained whole.
    {"target_modules": QV, "exclude_modules": ["v_proj"]},
    {"target_modules": "all-linear", "exclude_modules": ["down_proj", "model.layers.0.self_attn.q_proj"]},
    {"target_modules": "all-linear", "exclude_modules": r".*layers\.[12]\..*|.*mlp.*"},
    {"target_modules": QV, "exclude_modules": ["no_such_proj"]},
    {"target_modules": QV, "exclude_modules": QV},
    {"target_modules": QV, "exclude_modules": r".*"},
    {"target_modules": QV, "modules_to_save": ["lm_head"]},
    {"target_modules": QV, "modules_to_save": ["embed_tokens"]},
    {"target_modules": QV, "modules_to_save": ["embed_tokens", "lm_head"]},
    {"target_modules": QV, "modules_to_save": ["model.embed_tokens"], "ensure_weight_tying": True},
    {"target_modules": QV, "modules_to_save": ["norm"]},
    {"target_modules": QV, "modules_to_save": ["model.norm"]},
    {"target_modules": QV, "modules_to_save": ["v_proj"]},
    {"target_modules": QV, "modules_to_save": ["no_such_module"]},
    {"target_modules": "all-linear", "modules_to_save": ["mlp"]},
]
# Settings that some of this program's models meet with another answer of PEFT.
OTHERS = [("phi3-tiny", {"target_modules": None}), ("phi3-tiny", {"target_modules": "all-linear"}), ("phi3-tiny", {"target_modules": QV}),
          ("olmo2-tiny", {"target_modules": None}), ("mistral-tiny", {"target_modules": None}),
          ("qwen3-tiny", {"target_modules": None}), ("qwen3-tiny", {"target_modules": QV, "modules_to_save": ["norm"]})]


def sort_sets(text):
    return re.sub(r"\{('[^{}:]*')\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)


def adapt(model_name, settings):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(f"models/{model_name}"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, **settings))
        except Exception as error:  # a refusal is a result too
            return {"error": f"{type(error).__name__}: {sort_sets(str(error))}"}
    modules = {name: module for name, module in adapted.base_model.model.named_modules(remove_duplicate=False)}
    written = adapted.peft_config["default"].target_modules
    result = {
        "modules": {name: [module.r["default"], module.lora_alpha["default"]] for name, module in modules.items()
                    if isinstance(module, LoraLayer)},
        "modules_to_save": [name for name, module in modules.items() if isinstance(module, ModulesToSaveWrapper)],
        "written_target_modules": written if isinstance(written, str) else sorted(written),
    }
    told = [sort_sets(str(warning.message)) for warning in caught if "Deprecat" not in warning.category.__name__
            and "deprecated" not in str(warning.message)]
    return {**result, "warnings": told} if told else result


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    os.chdir(parser.parse_args().out)
    torch.set_num_threads(1)
    asked = [(model, settings) for settings in CASES for model in ("qwen2-tiny", "llama3-tiny")] + OTHERS
    cases = [{"model": f"models/{model}", "settings": settings, **adapt(model, settings)} for model, settings in asked]
    lines = ",\n".join(map(json.dumps, cases))
    common.write_packed("adapters/targets.json.gz", f'{{"r": 4, "lora_alpha": 8, "cases": [\n{lines}\n]}}\n')
    print(len(cases), "cases,", sum("error" in case for case in cases), "refused")

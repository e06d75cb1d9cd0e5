"""Tiny random models of transformers' decoder classes, and the first loss of each by transformers and by this program."""

import json
import os
import subprocess
import tempfile

import beside_transformers  # noqa: F401: ends where there is no transformers
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from trainer import clean_environment

torch.set_num_threads(1)
TOKENS = [(7 * i * i + 3 * i + 1) % 96 for i in range(45)]
SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "head_dim": 16}
# Of wrapped models: what sees is not computed here, but its tensors pass through.
VISION_SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
                "patch_size": 14, "depth": 1, "num_heads": 2, "out_hidden_size": 32, "num_position_embeddings": 16,
                "deepstack_visual_indexes": [0], "fullatt_block_indexes": [0]}
QUIET = {"attention_dropout": 0.0, "residual_dropout": 0.0, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}


def classes():
    """model_type -> the name of its decoder class, of all that transformers has: of text models, and of wrapped ones."""
    wrapped = {model_type: name for model_type, name in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.items() if isinstance(name, str)}
    return {**MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, **wrapped}


def model_class(content):
    return AutoModelForImageTextToText if "text_config" in content else AutoModelForCausalLM


def tiny_config(model_type, **other):
    """A small configuration with the defaults of its class, as a config.json has it; of a wrapped model, small parts."""
    fields = CONFIG_MAPPING[model_type].__dataclass_fields__
    given = {name: value for name, value in {**SIZES, **QUIET}.items() if name in fields}
    if "text_config" in fields:
        given.update(text_config={**SIZES, **QUIET, "sliding_window": 8}, vision_config=VISION_SIZES)
    if model_type == "qwen2_5_vl":
        given["text_config"].update(head_dim=8, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 2, 1]})
    if model_type == "gpt2":
        given.update(n_embd=32, n_inner=48, n_layer=4, n_head=4, n_positions=128, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
    if model_type == "helium":
        given["head_dim"] = 8
    if model_type in ("qwen2_moe", "qwen3_next", "qwen3_5_moe_text"):
        given.update(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24)
    if "mamba_n_heads" in fields:
        given.update(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8)
    if model_type == "bamba":
        given.update(attn_layer_indices=[1])
    if model_type in ("dots1", "glm4_moe", "solar_open"):
        given.update(n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=16)
    if model_type in ("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite"):
        given.update(n_routed_experts=16, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=16, num_key_value_heads=4,
                     kv_lora_rank=12, q_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12)
        given.pop("head_dim", None)
    if model_type == "kimi_linear":
        given.update(num_local_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, num_key_value_heads=4, kv_lora_rank=12,
                     qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12, linear_head_dim=8, linear_num_heads=4,
                     layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"])
        given.pop("head_dim", None)
    if model_type == "bailing_hybrid":
        given.update(num_local_experts=8, num_experts_per_tok=2, n_group=2, topk_group=2, moe_intermediate_size=16, num_key_value_heads=4,
                     kv_lora_rank=12, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12, head_dim=8, layer_group_size=2)
    if model_type == "olmo_hybrid":  # transformers writes the convolutions of queries, keys and values as thirds of all
        given.update(linear_key_head_dim=8, linear_value_head_dim=8)
    if model_type == "youtu":
        given.update(num_key_value_heads=4, kv_lora_rank=12, q_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12)
        given.pop("head_dim", None)
    if model_type == "gemma4_text":
        given.update(hidden_size_per_layer_input=8, vocab_size_per_layer_input=given["vocab_size"], num_kv_shared_layers=1, global_head_dim=16,
                     layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"])
    if model_type in ("gemma4", "gemma4_unified"):
        given["text_config"].update(global_head_dim=16, pad_token_id=0)
    if model_type == "gemma4":
        given["text_config"].update(hidden_size_per_layer_input=8, vocab_size_per_layer_input=given["text_config"]["vocab_size"])
    if model_type == "lfm2_moe":
        given.update(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16)
    if model_type in ("lfm2", "lfm2_moe"):
        given.update(layer_types=["conv", "full_attention", "conv", "conv"])
    if model_type == "falcon_h1":
        given.update(mamba_d_ssm=64)
    if model_type == "nemotron_h":
        given.update(layers_block_type=["linear_attention", "full_attention", "moe", "mlp"], ssm_state_size=8, mamba_num_heads=4, mamba_head_dim=16,
                     n_groups=2, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, moe_shared_expert_intermediate_size=24)
        given.pop("num_hidden_layers", None)
    if model_type == "exaone_moe":
        given.update(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16)
    if model_type == "mimo_v2_flash":  # whose layers with windows have twice as many keys
        given.update(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, v_head_dim=12, rope_parameters={
            kind: {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5} for kind in ("full_attention", "sliding_attention")},
            layer_types=["full_attention", "sliding_attention"] * 2)
    if model_type == "minimax_m2":
        given.update(num_local_experts=8, num_experts_per_tok=2)
    if model_type in ("afmoe", "laguna", "mellum"):
        given.update(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16)
    if model_type == "laguna":
        given.update(shared_expert_intermediate_size=24)
    if model_type == "cohere2_moe":
        given.update(num_experts=8)
    if model_type == "granitemoeshared":
        given.update(shared_intermediate_size=24)
    if model_type == "qwen3_vl_moe":  # files may have matrices of experts or their transposes: no square ones
        given["text_config"].update(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24)
    if model_type == "hy_v3":
        given.update(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16)
    if model_type == "minicpm3":
        given.update(num_key_value_heads=4, kv_lora_rank=12, q_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12)
        given.pop("head_dim", None)
    if model_type == "hunyuan_v1_moe":
        given.update(num_experts=4, moe_topk=2)
    if model_type == "ernie4_5_moe":
        given.update(moe_num_experts=8, moe_k=2, moe_intermediate_size=16)
    if "sliding_window" in fields and model_type != "nemotron_h":  # whose attention does not read it
        given["sliding_window"] = 8
    content = json.loads(CONFIG_MAPPING[model_type](**{**given, **other}).to_json_string(use_diff=False))
    for name in ("_name_or_path", "transformers_version", "dtype"):
        content.pop(name, None)
    return {**content, "architectures": [classes()[model_type]]}


def bare_config(model_type):
    """What names a class, and the sizes that every reader asks for first."""
    return {"model_type": model_type, "architectures": [classes()[model_type]], **SIZES, **QUIET}


def is_served(answer):
    """True if a class has a reader, also if the reader asks for more."""
    message = answer.get("message", "")
    return "this program trains" not in message


def fill(model):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.rand(p.shape, generator=generator) * 2 - 1
            if p.dim() > 1:
                p.copy_(noise * (0.9 if "embed" in name else 1.6 / p.shape[-1] ** 0.5))
            else:
                p.add_(0.2 * noise)  # norms and biases around where they begin


def tiny_model(content, folder):
    """A random model of a config.json, which it writes."""
    write_config(content, folder)
    model = model_class(content).from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32, attn_implementation="eager").eval()
    fill(model)
    return model


class Losses:
    """The program first_losses, which answers for one folder after the other."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ["FIRST_LOSSES"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=clean_environment())

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, **wish):
        self.process.stdin.write(json.dumps(wish) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def of_config(self, content):
        """Whether the program takes a config.json: {"architecture": ...}, or {"code": ..., "message": ...}."""
        with tempfile.TemporaryDirectory() as folder:
            write_config(content, folder)
            return self.ask(folder=folder)

    def compare(self, content):
        """Both losses of a random model of a config.json: (ours, theirs), ours as the program answers. None where transformers
        cannot make the model."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                model = tiny_model(content, folder)
                tokens = torch.tensor([TOKENS])
                with torch.no_grad():
                    theirs = model(tokens, labels=tokens, use_cache=False).loss.item()
                model.save_pretrained(folder)
            except Exception as error:  # noqa: BLE001: whatever its classes raise
                return self.ask(folder=folder), repr(error)
            write_config(content, folder)
            return self.ask(folder=folder, tokens=TOKENS), theirs


def write_config(content, folder):
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(content, file)

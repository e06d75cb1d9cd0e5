"""Numbers of one tiny random model for each family, one JSON file each, packed by gzip.

    .deps/venv/bin/python tests/parity/generator/families.py --out tests/parity/data/families [name ...]

Weights and tokens are not stored: they follow from names (`numbers`), here as in tests/parity/families_test.cpp."""
import argparse
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from common import write_packed
from family_configs import CONFIGS, of_vocabulary

torch.set_num_threads(1)
LENGTHS = [37, 5, 60, 1, 22]  # beyond every window and every original length of positions
LENGTHS_OF = {name: [37, 22] for name in ("afmoe", "axk1", "cohere2_moe", "gpt2", "granitemoeshared", "hy_v3", "laguna", "mellum", "minicpm3",
                                          "minimax_m2", "nemotron_h", "qwen3_vl_moe", "mimo_v2_flash", "mistral3-mistral4", "gemma4-per-layer-wrapped")}  # small files
LENGTHS_OF |= {"qwen3_5-lengths": [63, 1, 3, 64, 65, 1000, 4097], "bamba": [63, 1, 3, 64, 65, 300], "kimi_linear": [150, 22],
               "bailing_hybrid": [37, 70], "olmo_hybrid": [37, 80], "youtu": [37, 22]}  # around the chunks of 64 tokens
VOCABULARY = 96


def numbers(name, count):
    """Uniform numbers in [0, 1) that follow from a name: SplitMix64 from its FNV-1a hash."""
    with np.errstate(over="ignore"):
        seed = np.uint64(14695981039346656037)
        for byte in name.encode():
            seed = (seed ^ np.uint64(byte)) * np.uint64(1099511628211)
        z = seed + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / float(1 << 24)


def distribution(name, shape, model):
    """Mean and half the width of the values of a tensor: enough spread that every part matters."""
    if model.config.model_type.startswith("gemma4") and name.endswith(("q_norm.weight", "k_norm.weight")):
        return 0.5, 0.2  # scores have no other factor
    if name.endswith("post_per_layer_input_norm.weight"):
        return 0.4, 0.1  # a norm of products of small numbers, which makes rounding larger
    if ("norm" in name or ".ln_" in name) and name.endswith("weight"):
        module = name[:-7].replace(".post_mlp", ".mlp.post_mlp") if model.config.model_type == "axk1" else name[:-7]
        module = module.replace("backbone.", "model.")
        module = module.replace("attention_layer_norm", "input_layernorm").replace("feedforward_layer_norm", "post_attention_layernorm")
        module = module.replace("attention.", "self_attn.") if model.config.model_type == "bailing_hybrid" else module
        adds_one = type(model.get_submodule(module)).__name__ in (
            "GemmaRMSNorm", "Gemma2RMSNorm", "Gemma3RMSNorm", "NemotronLayerNorm1P", "VaultGemmaRMSNorm", "Qwen3NextRMSNorm", "Qwen3_5RMSNorm",
            "Qwen3_5MoeRMSNorm")
        return (0.0 if adds_one else 1.0), 0.2
    if name.endswith("A_log"):
        return -0.5, 1.5
    if name.endswith("dt_bias") and model.config.model_type in ("kimi_linear", "bailing_hybrid", "olmo_hybrid"):
        return -2.0, 0.5  # states that last
    if name.endswith(("sinks", "attention_sink_bias")):
        return 0.5, 1.0
    if name.endswith("bias"):
        return 0.0, 0.2
    if ("embed_" in name or "word_embeddings" in name) and "embed_out" not in name:
        spread = 0.23 if model.config.tie_word_embeddings else 0.9
        scales = model.config.model_type.startswith(("gemma", "vaultgemma"))
        return 0.0, spread / (math.sqrt(shape[1]) if scales and not model.config.tie_word_embeddings else 1)
    if "lm_head" in name or "embed_out" in name:
        return 0.0, 0.23
    if name.endswith("act_fn.alpha_p") or name.endswith("act_fn.alpha_n"):
        return 0.3, 0.4
    if name.endswith("layer_scalar"):
        return 0.9, 0.3
    if name.endswith(("router.scale", "per_expert_scale")):
        return 1.0, 0.3
    if name.endswith(("gate.weight", "gate.wg.weight", "router.weight", "router.layer.weight", "router.proj.weight")) and "per_layer" not in name:
        return 0.0, 3.0 / math.sqrt(shape[1])  # a router: few tokens are near a choice between two experts
    gain = 2.2 if any(part in name for part in ("q_proj", "k_proj", "qkv_proj", "query_key_value", "c_attn")) else 1.2
    if model.config.model_type == "gpt2":  # matrices [in, out], and tables
        return 0.0, gain / math.sqrt(shape[0]) if ".h." in name else 0.23
    return 0.0, gain / math.sqrt(shape[1 if model.config.model_type in ("gpt_oss", "qwen3_vl_moe") else -1])


CORRECTIONS = ("e_score_correction_bias", "expert_bias")  # of routers
FACTORS = ("layer_scalar",)  # of the stream


def text_parameters(model):
    """Of a wrapped model those of its text model: nothing else is in the numbers of a text."""
    buffers = [(name, b) for name, b in model.named_buffers() if name.endswith(CORRECTIONS + FACTORS)]
    return [(name, p) for name, p in [*model.named_parameters(), *buffers]
            if not hasattr(model.config, "text_config") or "language_model." in name or name.startswith("lm_head.")]


# GraniteMoE's files name tensors otherwise.
STACKED = {"experts.gate_up_proj": "input_linear.weight", "experts.down_proj": "output_linear.weight", "router.weight": "router.layer.weight"}


# So do those of other models.
RENAMED = {"mimo_v2_flash": {"self_attn.sinks": "self_attn.attention_sink_bias"},
           "hy_v3": {"mlp.gate.weight": "mlp.router.gate.weight", "mlp.e_score_correction_bias": "mlp.expert_bias", "shared_experts": "shared_mlp"},
           "kimi_linear": {"forget_gate.": ""},
           "bailing_hybrid": {"forget_gate.": "", "self_attn.o_proj.": "self_attn.dense.", ".self_attn.": ".attention.",
                              "embed_tokens": "word_embeddings", "e_score_correction_bias": "expert_bias"},
           "laguna": {"mlp.gate.e_score_correction_bias": "mlp.experts.e_score_correction_bias", "mlp.shared_experts.": "mlp.shared_expert."}}


def olmo_hybrid_name(name, config):
    """The norms of blocks with delta nets have names of their own."""
    if ".layers." not in name or config.layer_types[int(name.split(".")[2])] == "full_attention":
        return name
    return name.replace("input_layernorm", "attention_layer_norm").replace("post_attention_layernorm", "feedforward_layer_norm")


def stored(model, of):
    """The tensors of the model's files by name, as views: transformers holds the experts of a block as one tensor."""
    kimi = model.config.model_type == "kimi_linear"  # whose first MLPs are no experts
    mixtral = model.config.model_type in ("mixtral", "minimax_m2") or kimi
    short = mixtral or model.config.model_type == "lfm2_moe"
    gate, up, down = ("w1", "w3", "w2") if short else ("gate_proj", "up_proj", "down_proj")
    for name, p in text_parameters(model):
        tensor = of(p)
        is_sparse = mixtral and (not kimi or "experts." in name or ".mlp.gate." in name)
        name = name.replace(".mlp.", ".block_sparse_moe.") if is_sparse else name
        name = name.replace("lm_head", "embed_out") if model.config.model_type == "gpt_neox" else name
        name = name.replace("mlp.gate.moe_statics.", "mlp.moe_statics.")  # Ernie's files
        name = name.replace("model.", "backbone.") if model.config.model_type == "nemotron_h" else name
        if model.config.model_type == "olmo_hybrid":
            name = olmo_hybrid_name(name, model.config)
        for ours, file in RENAMED.get(model.config.model_type, {}).items():
            name = name.replace(ours, file)
        name = name.replace("mlp.post_mlp_layernorm", "post_mlp_layernorm")  # A.X-K1's files
        if model.config.model_type == "exaone_moe":
            name = name.replace("mlp.gate.e_score_correction_bias", "mlp.e_score_correction_bias")
        if model.config.model_type in ("kimi_linear", "bailing_hybrid", "olmo_hybrid") and ".conv1d." in name:
            products = model.get_submodule(name.rpartition(".conv1d.")[0].replace("backbone.", "model.").replace(".attention", ".self_attn"))
            for part, rows in zip("qkv", tensor.split([getattr(products, f"{part}_proj").out_features for part in "qkv"])):
                yield name.replace("conv1d", f"{part}_conv1d"), rows
        elif model.config.model_type == "qwen3_vl_moe" and ".experts." in name:
            yield name, tensor.transpose(1, 2)
        elif model.config.get_text_config().model_type in ("gpt_oss", "granitemoe", "granitemoehybrid", "granitemoeshared", "gemma4_text",
                                                           "mistral4"):
            for ours, file in STACKED.items() if model.config.model_type.startswith("granite") else ():
                name = name.replace(ours, file)
            yield name, tensor
        elif name.endswith("experts.gate_up_proj"):
            for expert, matrix in enumerate(tensor):
                for layer, part in zip((gate, up), matrix.chunk(2)):
                    yield name.replace("gate_up_proj", f"{expert}.{layer}.weight"), part
        elif name.endswith(("experts.down_proj", "experts.up_proj")):
            layer = down if name.endswith("down_proj") else up
            for expert, matrix in enumerate(tensor):
                yield f"{name.rpartition('.')[0]}.{expert}.{layer}.weight", matrix
        else:
            yield name, tensor


def fill(model):
    tensors = {}
    with torch.no_grad():
        for name, p in stored(model, lambda p: p):
            mean, spread = distribution(name, p.shape, model)
            values = mean + spread * (2 * numbers(name, p.numel()) - 1)
            p.copy_(torch.from_numpy(values.astype(np.float32)).reshape(p.shape))
            tensors[name] = {"shape": list(p.shape), "mean": mean, "spread": spread}
    return tensors


def run(model, tokens, lengths):
    """Every document by itself: nothing there can leak."""
    loss, logits, routed, begin = 0.0, [], [], 0
    config = model.config.get_text_config()
    num_experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", 0)
    has_experts = hasattr(config, "router_aux_loss_coef") and num_experts > 0
    for length in lengths:
        ids = tokens[None, begin:begin + length]
        result = model(input_ids=ids, use_cache=False, **({"output_router_logits": True} if has_experts else {}))
        out = result.logits[0].float()
        loss = loss + F.cross_entropy(out[:-1], ids[0, 1:], reduction="sum")
        logits.append(out[-1])
        routed.append(result.router_logits if has_experts else ())
        begin += length
    loss = loss / (len(tokens) - len(lengths))
    if has_experts:  # the auxiliary loss is of all tokens, as in a packed row
        of_layers = tuple(torch.cat(layer) for layer in zip(*routed))
        aux = load_balancing_loss_func(of_layers, num_experts, config.num_experts_per_tok)
        loss = loss + config.router_aux_loss_coef * aux
        sorted_probabilities = torch.cat(of_layers).softmax(-1).sort(-1, descending=True).values
        k = config.num_experts_per_tok
        print("nearest choice:", (sorted_probabilities[:, k - 1] - sorted_probabilities[:, k]).min().item(), "aux", float(aux))
    return loss, torch.stack(logits)


def sketch(name, gradient):
    g = gradient.double().flatten()
    signs = torch.from_numpy(2 * numbers("sketch of " + name, g.numel()) - 1)
    return [float(f"{x:.8g}") for x in (g.norm().item(), g.sum().item(), (g * signs).sum().item())]


def rows(logits):
    return [[float(f"{x:.8g}") for x in row] for row in logits.tolist()]


def make(family):
    given = CONFIGS[family]
    is_wrapped = "text_config" in given
    if is_wrapped:
        given = {**given, "text_config": of_vocabulary(given["text_config"], VOCABULARY)}
    else:
        given = of_vocabulary(given, VOCABULARY)
    config = AutoConfig.for_model(**given, attn_implementation="eager")
    kind = AutoModelForImageTextToText if is_wrapped else AutoModelForCausalLM
    model = kind.from_config(config, dtype=torch.float32, attn_implementation="eager").train()
    tensors = fill(model)
    lengths = LENGTHS_OF.get(family, LENGTHS)
    tokens = torch.from_numpy((numbers("tokens", sum(lengths)) * VOCABULARY).astype(np.int64))
    loss, logits = run(model, tokens, lengths)
    loss.backward()
    for name, gradient in stored(model, lambda p: p.grad if p.grad is not None else torch.zeros(0)):
        if gradient.numel() > 0:
            tensors[name]["gradient"] = sketch(name, gradient)
    assert all(p.grad is not None for _, p in text_parameters(model) if p.requires_grad)
    corrections = {name: t.clone() for name, t in model.state_dict().items() if name.endswith(CORRECTIONS)}
    model.to(torch.bfloat16)
    for name, t in corrections.items():  # as from_pretrained keeps them
        module, _, leaf = name.rpartition(".")
        getattr(model.get_submodule(module), leaf).data = t
    with torch.no_grad():
        half_loss, half_logits = run(model, tokens, lengths)
    written = json.loads(config.to_json_string(use_diff=False))
    written["architectures"] = [type(model).__name__]
    written["dtype"] = "float32"
    for key in ("_name_or_path", "transformers_version", "_attn_implementation", "attn_implementation"):
        written.pop(key, None)
    half = {"loss": half_loss.item()}
    if not any("experts" in name or "_moe." in name for name in tensors):  # else rounding may send a token to other experts
        half["logits"] = rows(half_logits)
    return {"config": written, "lengths": lengths, "tensors": tensors, "loss": loss.item(), "logits": rows(logits), "bf16": half}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for family in args.names or CONFIGS:
        golden = make(family)
        write_packed(args.out / f"{family}.json.gz", json.dumps(golden, separators=(",", ":")) + "\n")
        print(family, golden["loss"], golden["bf16"]["loss"], len(golden["tensors"]))


if __name__ == "__main__":
    main()

"""Folders of the tiny models whose weights follow from names, as generator/families.py has them."""

import array
import json
import math
import os
import shutil

MASK = (1 << 64) - 1


def numbers(name, count):
    """Uniform numbers in [0, 1): SplitMix64 from the FNV-1a hash of a name."""
    seed = 14695981039346656037
    for byte in name.encode():
        seed = (seed ^ byte) * 1099511628211 & MASK
    for _ in range(count):
        seed = seed + 0x9E3779B97F4A7C15 & MASK
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        yield ((z ^ z >> 31) >> 40) / (1 << 24)


def write_model(golden, folder, config="config.json", weights="model.safetensors"):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, config), "w") as file:
        json.dump(golden["config"], file)
    header, values = {}, array.array("f")
    for name, tensor in golden["tensors"].items():
        begin = 4 * len(values)
        mean, spread = tensor["mean"], tensor["spread"]
        values.extend(mean + spread * (2 * x - 1) for x in numbers(name, math.prod(tensor["shape"])))
        header[name] = {"dtype": "F32", "shape": tensor["shape"], "data_offsets": [begin, 4 * len(values)]}
    if golden["config"].get("model_type") == "apertus":  # transformers takes these constants from the file, or any numbers without it
        for block in range(golden["config"]["num_hidden_layers"]):
            for name, value in (("beta", 0.5), ("eps", -1e-6)):
                header[f"model.layers.{block}.mlp.act_fn.{name}"] = {
                    "dtype": "F32", "shape": [], "data_offsets": [4 * len(values), 4 * len(values) + 4]}
                values.append(value)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, weights), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + values.tobytes())


def shapes_in_memory(golden):
    """The parameters of transformers' model: it holds the experts of a block as two tensors."""
    shapes = {}
    for name, tensor in golden["tensors"].items():
        shape = tensor["shape"]
        block, _, rest = name.replace(".block_sparse_moe.", ".mlp.").partition(".experts.")
        expert, _, layer = rest.partition(".")
        if ".block_sparse_moe." in name and "_linear." in name:  # GraniteMoE
            layer = "gate_up_proj" if "input_linear" in name else "down_proj"
            shapes[name[:name.index("block_sparse_moe.")] + "block_sparse_moe.experts." + layer] = shape
        elif ".block_sparse_moe.router." in name:
            shapes[name.replace("router.layer", "router")] = shape
        elif ".moe_statics." in name:  # Ernie
            shapes[name.replace("mlp.moe_statics.", "mlp.gate.moe_statics.")] = shape
        elif name.endswith(".mlp.e_score_correction_bias"):  # EXAONE
            shapes[name.replace("mlp.e_score", "mlp.gate.e_score")] = shape
        elif ".q_conv1d." in name:  # of Kimi's delta attention
            rows = sum(golden["tensors"][name.replace("q_conv1d", f"{part}_conv1d")]["shape"][0] for part in "qkv")
            shapes[name.replace("q_conv1d", "conv1d")] = [rows, *shape[1:]]
        elif ".k_conv1d." in name or ".v_conv1d." in name:
            continue
        elif not expert.isdigit():
            shapes[name.replace(".block_sparse_moe.", ".mlp.")] = shape
        elif layer.split(".")[0] in ("down_proj", "w2"):
            shapes[block + ".experts.down_proj"] = [int(expert) + 1, *shape]
        elif f"{block}.experts.{expert}.gate_proj.weight" not in golden["tensors"] and layer == "up_proj.weight":  # Nemotron-H
            shapes[block + ".experts.up_proj"] = [int(expert) + 1, *shape]
        else:
            shapes[block + ".experts.gate_up_proj"] = [int(expert) + 1, 2 * shape[0], shape[1]]
    return shapes


def add_tokenizer(source, folder):
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(os.path.join(source, name), folder)

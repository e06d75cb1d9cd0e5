"""The models of the benchmarks: Qwen2 with random weights, made by `trainer init`."""

import json
import random
import subprocess

from bench_file import BUILD

# rows x tokens of a step; tied embeddings in all of them.
SHAPES = {
    "t": {"hidden": 64, "intermediate": 128, "layers": 4, "heads": 4, "key_heads": 2, "vocab": 1024, "rows": 1, "tokens": 64},
    "a": {"hidden": 64, "intermediate": 128, "layers": 4, "heads": 4, "key_heads": 2, "vocab": 1024, "rows": 8, "tokens": 128},
    "b": {"hidden": 512, "intermediate": 1408, "layers": 8, "heads": 8, "key_heads": 2, "vocab": 8192, "rows": 4, "tokens": 256},
    "c": {"hidden": 896, "intermediate": 4864, "layers": 6, "heads": 14, "key_heads": 2, "vocab": 32768, "rows": 1, "tokens": 1024},
    # 14.4M parameters, for rows as long as memory allows
    "m": {"hidden": 256, "intermediate": 768, "layers": 8, "heads": 8, "key_heads": 2, "vocab": 32768, "rows": 1, "tokens": 2048},
}


def make_model(shape, folder):
    """A Hugging Face folder: config.json and weights."""
    folder.mkdir(parents=True)
    config = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu",
        "hidden_size": shape["hidden"], "intermediate_size": shape["intermediate"], "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"], "num_key_value_heads": shape["key_heads"], "vocab_size": shape["vocab"],
        "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "initializer_range": 0.02,
        "use_sliding_window": False, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    }
    wanted = folder.parent / (folder.name + ".json")
    wanted.write_text(json.dumps(config))
    subprocess.run([BUILD / "bin" / "trainer", "init", "--config_json", wanted, "--output_dir", folder], check=True,
                   capture_output=True)
    return folder


def random_rows(shape, rows=None, tokens=None):
    rng = random.Random(1)
    return [[rng.randrange(shape["vocab"]) for _ in range(tokens or shape["tokens"])] for _ in range(rows or shape["rows"])]


def write_rows(rows, file):
    file.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return file

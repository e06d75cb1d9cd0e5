#!/usr/bin/env python3
"""What `trainer plan` says of runs that others have published, beside their figures: a table in Markdown.

    scripts/plan_published.py [--trainer ./trainer]

Sources: ALST (arXiv 2506.13996, its tables, and the recipes beside it) and TRL's example of a million tokens (the guide
of release 1.13, and the pull requests it was made of). Of TRL on 2, 4 and 8 GPUs at 131,072 tokens there are curves in pictures
only (its guide of autumn 2025) and no figures, so there is nothing here.

Lengths are the longest that fit 80 GB with their settings as far as this program has them. What they keep in the memory
of a node (1.9e12 bytes) is in files of the node here, which are given as much room: behind a length stands what ends it,
the device or the node. Step times are planned with the rates published for the attention kernel they used. Nothing is
fitted.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "head_dim": 128,
         "vocab_size": 151936, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "attention_bias": False,
         "initializer_range": 0.02, "use_sliding_window": False,
         "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}
MODELS = {
    "Qwen3-0.6B": QWEN3 | {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
                           "num_attention_heads": 16, "num_key_value_heads": 8, "tie_word_embeddings": True},
    "Qwen3-8B": QWEN3 | {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
                         "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": False},
    "Qwen3-32B": QWEN3 | {"hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64,
                          "num_attention_heads": 64, "num_key_value_heads": 8, "tie_word_embeddings": False},
    "Qwen3-30B-A3B": QWEN3 | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
                              "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32,
                              "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8,
                              "moe_intermediate_size": 768, "norm_topk_prob": True, "tie_word_embeddings": False},
    "Llama-3.1-8B": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 4096,
                     "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
                     "rms_norm_eps": 1e-5, "attention_bias": False, "tie_word_embeddings": False,
                     "initializer_range": 0.02, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
}
MODELS["Llama-3.1-70B"] = MODELS["Llama-3.1-8B"] | {"hidden_size": 8192, "intermediate_size": 28672,
                                                    "num_hidden_layers": 80, "num_attention_heads": 64}
H100 = {"memory_bytes": 82.2e9, "bf16_products": 712e12, "bf16_products_backward": 712e12, "bf16_peak": 989.4e12,
        "bf16_row_bytes": 2.68e12, "fp32_products": 45e12, "fp32_products_backward": 45e12, "fp32_attention": 38e12,
        "fp32_attention_backward": 32e12, "fp32_peak": 62e12, "fp32_row_bytes": 2.68e12,
        "loss_logits": 4.5e11, "optimizer_bytes": 2.68e12, "scratch_bytes": 5e10, "link_bytes": 4e11, "network_bytes": 4.5e10,
        "host_copy_bytes": 5e10, "save_bytes": 5e9, "host_memory_bytes": 1.9e12, "scratch_room_bytes": 1.9e12}
H100 |= {f"{kind}_attention{way}_extra_keys": 64 for kind in ("bf16", "fp32") for way in ("", "_backward")}


# Operations a second forward and backward, causal, 32,768 tokens, head_dim 128.
CUDNN = {"bf16_attention": 607e12, "bf16_attention_backward": 517e12}
FA2 = {"bf16_attention": 366e12, "bf16_attention_backward": 330e12}
FULL = ["--profile", "zero3", "--per_device_train_batch_size", "1", "--activation_policy", "input",
        "--activation_offloading", "true"]
ON_HOST = ["--offload_optimizer_device", "cpu"]
WEIGHTS_ON_HOST = ["--offload_param_device", "cpu"]
GUIDE, EXPERTS, FIRST, ALST = "TRL 1.13, guide", "TRL, guide, experts", "TRL #6845", "arXiv 2506.13996"


def trl(source, model, ranks, length, kernel, **published):
    """All gather keys at once, as Accelerate does by default."""
    flags = [*FULL, "--cp_size", str(ranks), "--cp_comm_strategy", "allgather"]
    return source, model, ranks, flags, kernel, length, published


def shared(model, ranks, length, **published):
    """Ranks share the experts, and each has a row."""
    return EXPERTS, model, ranks, [*FULL, "--ep_size", str(ranks)], CUDNN, length, published


def alst(model, ranks, length, **published):
    """Gradients are summed in bf16 in their recipes."""
    flags = [*FULL, *ON_HOST, *([*WEIGHTS_ON_HOST] if ranks == 1 else ["--sp_size", str(ranks)]), "--reduce_dtype", "bf16"]
    return ALST, model, ranks, flags, FA2, length, published


RUNS = [
    trl(GUIDE, "Qwen3-8B", 8, 1 << 20, CUDNN, memory=56.2e9, step=380),
    trl("transformers #48324, FA2", "Qwen3-8B", 8, 1 << 20, FA2, step=606),
    trl(FIRST, "Qwen3-8B", 16, 2 << 20, CUDNN, step=696),
    trl(FIRST, "Qwen3-8B", 32, 4 << 20, CUDNN, step=1346),
    trl("accelerate #4175", "Qwen3-0.6B", 8, 1 << 20, CUDNN, memory=20.8e9),
    trl(FIRST, "Qwen3-0.6B", 8, 1 << 20, CUDNN, step=137),
    trl(FIRST, "Qwen3-32B", 8, 1 << 20, CUDNN, memory=60.8e9, step=1295),
    trl(FIRST, "Qwen3-30B-A3B", 8, 1 << 20, CUDNN, memory=46.0e9, step=483),
    shared("Qwen3-30B-A3B", 8, 2048, memory=34e9, step=0.9),
    alst("Llama-3.1-8B", 1, 500_000, step=1010),
    alst("Llama-3.1-8B", 8, 3_700_000, longest=3.7e6, step=6455),
    alst("Llama-3.1-8B", 16, 8_000_000, longest=8e6),
    alst("Llama-3.1-8B", 32, 15_000_000, longest=15e6, step=26709),
    alst("Qwen3-32B", 8, 1_550_000, longest=1.55e6),
    alst("Qwen3-32B", 16, 4_000_000, longest=4e6),
    alst("Qwen3-32B", 32, 7_000_000, longest=7e6, memory=71.6e9),
    alst("Qwen3-32B", 64, 15_000_000, longest=15e6, memory=71.0e9),
    alst("Llama-3.1-70B", 32, 4_000_000, longest=4e6, memory=47.7e9),
    alst("Llama-3.1-70B", 64, 10_000_000, longest=10e6, memory=53.8e9),
]


def plan(trainer, folder, model, ranks, flags, attention, length, *more):
    path = folder / model
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(MODELS[model]))
    device = folder / "device"
    numbers = H100 | attention
    device.write_text("name: h100\n" + "".join(f"{name}: {value:g}\n" for name, value in numbers.items()))
    result = subprocess.run([trainer, "plan", "--model_name_or_path", path, "--world", str(ranks), "--gpu", device,
                             "--max_length", str(length), "--json", *flags, *more], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def line(run, what, published, planned, note=""):
    source, model, ranks, _, _, length, _ = run
    digits = ",.1f" if published < 1000 and isinstance(planned, float) else ",.0f"
    return (f"| {source} | {model} | {ranks} | {length:,} | {what} | {published:{digits}} | {planned:{digits}} | "
            f"{planned / published - 1:+.0%}{note} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="./trainer")
    trainer = parser.parse_args().trainer
    print("| source | model | GPUs | tokens | what | published | planned | |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for run in RUNS:
            _, model, ranks, flags, kernel, length, published = run
            answer = plan(trainer, folder, model, ranks, flags, kernel, length)
            if "memory" in published:
                print(line(run, "GB on a GPU", published["memory"] / 1e9, answer["peak_bytes"] / 1e9))
            if "step" in published:
                seconds = answer["step_seconds"]["total"]
                print(line(run, "s a step", published["step"], seconds if seconds < 10 else round(seconds)))
            if "longest" in published:
                longest = plan(trainer, folder, model, ranks, flags, kernel, length, "--longest")
                ends_with = longest["longer_is_short_of"].removeprefix("memory of the ").replace("host memory of a ", "")
                print(line(run, "longest row", round(published["longest"]), longest["row_length"], f", {ends_with}"))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What `trainer plan` says of runs that others have published, beside their figures: a table in Markdown.

    scripts/plan_published.py [--trainer ./trainer]

Sources: ALST (arXiv 2506.13996, tables and recipes) and TRL's example of a million tokens (release 1.13). Lengths are the
longest that fit on 80 GB with their settings as far as this program has them: what they keep in host memory is kept out
of the device here too. Step times are planned with the rates published for the attention kernel they used.
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
    "Llama-3.1-8B": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 4096,
                     "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
                     "rms_norm_eps": 1e-5, "attention_bias": False, "tie_word_embeddings": False,
                     "initializer_range": 0.02, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
}
H100 = {"memory_bytes": 82.2e9, "bf16_products": 712e12, "bf16_peak": 989.4e12, "bf16_row_bytes": 2.68e12,
        "fp32_products": 45e12, "fp32_attention": 33e12, "fp32_peak": 62e12, "fp32_row_bytes": 2.68e12,
        "loss_logits": 4.5e11, "optimizer_bytes": 2.68e12, "scratch_bytes": 5e10, "link_bytes": 4e11, "network_bytes": 4.5e10}


def kernel(forward, backward):
    """Operations a second of two forward passes and a backward pass, which counts as 2.5."""
    return 4.5 / (2 / forward + 2.5 / backward) * 1e12


CUDNN = kernel(607, 517)
FA2 = kernel(366, 330)
FULL = ["--profile", "zero3", "--per_device_train_batch_size", "1", "--activation_policy", "input",
        "--activation_offloading", "true"]
OPTIMIZER_ON_HOST = ["--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", "/tmp"]
# who, model, GPUs, flags, kernel, (what, published)
RUNS = [
    ("TRL", "Qwen3-8B", 8, [*FULL, "--cp_size", "8", "--cp_comm_strategy", "allgather"], CUDNN, 1 << 20,
     {"memory": 56.2e9, "step": 380}),
    ("TRL, FA2", "Qwen3-8B", 8, [*FULL, "--cp_size", "8", "--cp_comm_strategy", "allgather"], FA2, 1 << 20, {"step": 606}),
    ("TRL", "Qwen3-8B", 16, [*FULL, "--cp_size", "16", "--cp_comm_strategy", "allgather"], CUDNN, 2 << 20, {"step": 696}),
    ("TRL", "Qwen3-8B", 32, [*FULL, "--cp_size", "32", "--cp_comm_strategy", "allgather"], CUDNN, 4 << 20, {"step": 1346}),
    ("TRL", "Qwen3-0.6B", 8, [*FULL, "--cp_size", "8", "--cp_comm_strategy", "allgather"], CUDNN, 1 << 20,
     {"memory": 20.8e9, "step": 137}),
    ("TRL", "Qwen3-32B", 8, [*FULL, "--cp_size", "8", "--cp_comm_strategy", "allgather"], CUDNN, 1 << 20,
     {"memory": 60.8e9, "step": 1295}),
    ("ALST", "Llama-3.1-8B", 1, [*FULL, *OPTIMIZER_ON_HOST, "--offload_param_device", "nvme",
                                 "--offload_param_nvme_path", "/tmp"], FA2, 500_000, {"step": 1010}),
    ("ALST", "Llama-3.1-8B", 8, [*FULL, *OPTIMIZER_ON_HOST, "--sp_size", "8"], FA2, 3_700_000,
     {"length": 3.7e6, "step": 6455}),
    ("ALST", "Llama-3.1-8B", 16, [*FULL, *OPTIMIZER_ON_HOST, "--sp_size", "16"], FA2, 8_000_000, {"length": 8e6}),
    ("ALST", "Llama-3.1-8B", 32, [*FULL, *OPTIMIZER_ON_HOST, "--sp_size", "32"], FA2, 15_000_000,
     {"length": 15e6, "step": 26709}),
]


def plan(trainer, folder, model, ranks, flags, attention, length, *more):
    path = folder / model
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(MODELS[model]))
    device = folder / "device"
    numbers = H100 | {"bf16_attention": attention}
    device.write_text("name: h100\n" + "".join(f"{name}: {value:g}\n" for name, value in numbers.items()))
    result = subprocess.run([trainer, "plan", "--model_name_or_path", path, "--world", str(ranks), "--gpu", device,
                             "--max_length", str(length), "--json", *flags, *more], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def line(who, model, ranks, length, what, published, planned):
    return f"| {who} | {model} | {ranks} | {length:,} | {what} | {published} | {planned[0]} | {planned[1]:+.0%} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="./trainer")
    trainer = parser.parse_args().trainer
    print("| who | model | GPUs | tokens | what | published | planned | |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for who, model, ranks, flags, attention, length, published in RUNS:
            answer = plan(trainer, folder, model, ranks, flags, attention, length)
            if "memory" in published:
                held = answer["peak_bytes"]
                print(line(who, model, ranks, length, "GB on a GPU", f"{published['memory'] / 1e9:.1f}",
                           (f"{held / 1e9:.1f}", held / published["memory"] - 1)))
            if "step" in published:
                seconds = answer["step_seconds"]["total"]
                print(line(who, model, ranks, length, "s a step", f"{published['step']:,}",
                           (f"{seconds:,.0f}", seconds / published["step"] - 1)))
            if "length" in published:
                longest = plan(trainer, folder, model, ranks, flags, attention, length, "--longest")["row_length"]
                print(line(who, model, ranks, length, "longest row", f"{published['length']:,.0f}",
                           (f"{longest:,}", longest / published["length"] - 1)))


if __name__ == "__main__":
    main()

"""The models of the GPU benchmarks, by their published sizes, and which rows are measured."""


def qwen2(hidden, intermediate, layers, heads, key_heads, vocabulary, tied):
    return {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "hidden_size": hidden,
            "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": key_heads, "vocab_size": vocabulary, "max_position_embeddings": 1 << 20,
            "rms_norm_eps": 1e-6, "tie_word_embeddings": tied, "use_sliding_window": False, "initializer_range": 0.02,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}


def llama(hidden, intermediate, layers, heads, key_heads, vocabulary):
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": hidden,
            "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": key_heads, "vocab_size": vocabulary, "max_position_embeddings": 1 << 20,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
            "initializer_range": 0.02, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}


LIKE_LLAMA = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "max_position_embeddings": 1 << 20, "initializer_range": 0.02,
              "attention_bias": False, "tie_word_embeddings": False, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
# Blocks of models with other parts: gated delta nets (Qwen3.5-4B), Mamba2 beside attention (Falcon-H1-1.5B, whose vocabulary is an odd
# number), experts (OLMoE-1B-7B), latent attention and experts (DeepSeek-V2-Lite).
OTHER_PARTS = {
    "Qwen3.5-4B-8": {**LIKE_LLAMA, "model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "hidden_size": 2560,
                     "intermediate_size": 9216, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
                     "linear_conv_kernel_dim": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
                     "linear_value_head_dim": 128, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2, "vocab_size": 151936,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}},
    "Falcon-H1-8": {**LIKE_LLAMA, "model_type": "falcon_h1", "architectures": ["FalconH1ForCausalLM"], "hidden_size": 2048,
                    "intermediate_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
                    "mamba_d_ssm": 3072, "mamba_d_head": 64, "mamba_n_heads": 48, "mamba_n_groups": 1, "mamba_d_state": 256,
                    "mamba_d_conv": 4, "mamba_expand": 2, "mamba_chunk_size": 256, "mamba_rms_norm": False, "vocab_size": 65537},
    "OLMoE-8": {**LIKE_LLAMA, "model_type": "olmoe", "architectures": ["OlmoeForCausalLM"], "hidden_size": 2048, "intermediate_size": 1024,
                "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
                "norm_topk_prob": False, "vocab_size": 50304},
    "DeepSeek-V2-Lite-6": {**LIKE_LLAMA, "model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 2048,
                           "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 6, "num_attention_heads": 16,
                           "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128,
                           "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "num_experts_per_tok": 6,
                           "n_shared_experts": 2, "first_k_dense_replace": 1, "topk_method": "greedy", "norm_topk_prob": False,
                           "routed_scaling_factor": 1.0, "vocab_size": 102400}}
MODELS = {
    "0.5B": qwen2(896, 4864, 24, 14, 2, 151936, True),
    "1.5B": qwen2(1536, 8960, 28, 12, 2, 151936, True),
    "3B": qwen2(2048, 11008, 36, 16, 2, 151936, True),
    "7B": qwen2(3584, 18944, 28, 28, 4, 152064, False),
    "8B": llama(4096, 14336, 32, 32, 8, 128256),
    # Blocks and vocabulary of 7B and 8B with fewer blocks: a GPU with 80 GB has room for their states, and the time of a block is that
    # of the whole model.
    "7B-11": qwen2(3584, 18944, 11, 28, 4, 152064, False),
    "8B-12": llama(4096, 14336, 12, 32, 8, 128256),
    "8B-8": llama(4096, 14336, 8, 32, 8, 128256),
    **OTHER_PARTS,
}


def row(model, rows, length, policy, moments, *words, part="rows", floor=None, torch=False, profile=False, llmq=None):
    """rows: of a micro-batch. words: of bench_gpu_step. part: of scripts/gpu-check. floor: of MFU on an H200, in percent. torch: PyTorch
    is measured beside it with --beside-torch. profile: with the kernels that take most of the time. llmq: the MFU that llmq has published
    for such a step on an H100, in percent."""
    return {"model": model, "rows": rows, "length": length, "policy": policy, "moments": moments, "words": list(words),
            "part": part, "floor": floor, "torch": torch, "profile": profile, "llmq": llmq}


# In order of weight: what does not fit the time is left out and said. Those of the part `bench` fit a GPU with 80 GB. llmq measures its
# models with 64 rows a step.
ROWS = [
    row("0.5B", 64, 1024, "all", "fp32", part="bench", floor=48, profile=True, torch=True, llmq=46.7),
    row("0.5B", 64, 1024, "everything", "fp32", "timed", part="bench", floor=48, profile=True, llmq=46.7),
    row("8B-12", 1, 8192, "everything", "bf16", "accumulate=4", "timed", part="bench", profile=True),
    row("7B-11", 8, 1024, "everything", "bf16", "accumulate=4", "timed", part="bench", profile=True),
    row("0.5B", 16, 4096, "everything", "fp32", "packed", "timed", part="bench", profile=True),
    row("7B-11", 8, 1024, "everything", "bf16", "accumulate=4", "fp8", part="bench", profile=True),
    row("7B", 8, 1024, "all", "bf16", "accumulate=8", floor=58, profile=True, llmq=60.3),
    row("8B", 1, 8192, "all", "bf16", "accumulate=8", floor=58, profile=True),
    row("8B-8", 1, 65536, "attention", "bf16", "offload", "packed", profile=True),
    row("8B-8", 1, 131072, "attention", "bf16", "offload", "packed"),
    row("8B", 1, 131072, "attention", "bf16", "offload", "packed", floor=50, profile=True),
    row("8B", 1, 131072, "attention", "bf16", "offload", floor=50),
    *[row(model, 2, 8192, "all", "bf16", "packed", profile=True) for model in OTHER_PARTS],
    row("0.5B", 4, 1024, "all", "fp32"),
    row("0.5B", 4, 1024, "all", "fp32", "graphs"),
    row("0.5B", 16, 1024, "all", "fp32", "accumulate=8"),
    row("0.5B", 8, 8192, "all", "fp32"),
    row("1.5B", 32, 1024, "everything", "fp32", "accumulate=2", "timed", profile=True, llmq=56.7),
    row("3B", 16, 1024, "everything", "fp32", "accumulate=4", "timed", profile=True, llmq=59.3),
    row("7B", 8, 1024, "everything", "bf16", "accumulate=8", "timed", llmq=60.3),
    row("3B", 16, 1024, "all", "fp32", profile=True),
    row("7B", 16, 1024, "attention", "bf16", torch=True),
    row("8B", 2, 8192, "attention", "bf16", torch=True),
    row("1.5B", 32, 1024, "all", "fp32", torch=True),
    row("3B", 2, 8192, "attention", "fp32"),
    row("8B", 1, 65536, "attention", "bf16", "offload"),
    row("1.5B", 1, 65536, "attention", "fp32"),
]
# Two layers of the 8B model at lengths whose whole does not fit the time: forward and backward of a step, from which the
# whole is reckoned and marked so.
LONGEST = [262144, 524288, 1048576]


def name_of(row):
    """MODEL/ROWSxLENGTH/POLICY/WORDS..., as --rows of scripts/gpu-check takes it."""
    return "/".join([row["model"], f"{row['rows']}x{row['length']}", row["policy"], *row["words"]])


def is_named(row, names):
    """The beginning of a name, up to one of its slashes, is enough. No names: every row."""
    return not names or any(f"{name_of(row)}/".startswith(f"{name}/") for name in names)


def config_of(row):
    """The content of config.json: the row's model, of as many blocks as its words say."""
    layers = next((int(word.partition("=")[2]) for word in row["words"] if word.startswith("layers=")), None)
    config = MODELS[row["model"]]
    return config if layers is None else {**config, "num_hidden_layers": layers}


def planned_gpu(gpus):
    """The name that `trainer plan` has for the first GPU, by its own name and memory; None if it has none."""
    if not gpus:
        return None
    name, gib = gpus[0]["name"], float(gpus[0]["memory.total"].split()[0]) / 1024
    known = {"H100": "h100-80", "H200": "h200-141", "A100": "a100-80" if gib > 60 else "a100-40", "B200": "b200"}
    return next((planned for part, planned in known.items() if part in name), None)


def plan_flags(row):
    """The flags with which `trainer plan` plans a row, without those of the model and the GPU. A packed row is one document of
    five eighths and short ones: 0.39 to 0.43 of the pairs of one document, where three equal documents have 0.33."""
    accumulation = next((word.partition("=")[2] for word in row["words"] if word.startswith("accumulate=")), "1")
    precision = "fp8" if "fp8" in row["words"] else "bf16"
    flags = ["--world", "1", "--profile", "single_gpu", "--mixed_precision", precision, "--max_length", str(row["length"]),
             "--per_device_train_batch_size", str(row["rows"]), "--gradient_accumulation_steps", accumulation,
             "--activation_policy", row["policy"], "--optimizer_state_dtype", row["moments"]]
    if "offload" in row["words"]:
        flags += ["--activation_offloading", "true"]
    if "packed" in row["words"]:
        flags += ["--documents", "3"]
    return flags

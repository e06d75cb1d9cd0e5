"""Configurations of tiny models, one for each family and for each form of it that computes otherwise."""


def sizes(**other):
    return {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 128, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2, **other}


def rope(theta=10000.0, **other):
    return {"rope_type": "default", "rope_theta": theta, **other}


def of_vocabulary(config, rows):
    """The configuration with so many rows in its tables."""
    return {**config, "vocab_size": rows, **({"vocab_size_per_layer_input": rows} if config.get("hidden_size_per_layer_input") else {})}


WINDOWS = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
           "num_hidden_layers": 4}
NO_DROPOUT = {"attention_dropout": 0.0, "residual_dropout": 0.0}
BY_LAYER = {"full_attention": rope(1000000.0, rope_type="linear", factor=8.0), "sliding_attention": rope(10000.0)}
GEMMA4 = {"head_dim": 8, "global_head_dim": 16, "num_global_key_value_heads": 2, "num_key_value_heads": 4, "rope_parameters": {
    "full_attention": rope(1000000.0, rope_type="proportional", partial_rotary_factor=0.25, factor=2.0), "sliding_attention": rope()}}
# The last three layers take the keys and values of the second and the third.
GEMMA4_E = {**GEMMA4, "sliding_window": 8, "num_hidden_layers": 6, "num_kv_shared_layers": 3, "use_double_wide_mlp": True,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            "hidden_size_per_layer_input": 16}
YARN = rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
DELTA = {"head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
         "rope_parameters": rope(partial_rotary_factor=0.25)}

LATENT = {"kv_lora_rank": 12, "q_lora_rank": 20, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 12}

MAMBA = {"mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_d_head": 16, "mamba_chunk_size": 16}

LLAMA3 = rope(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)


def longrope(pairs):
    return rope(rope_type="longrope", short_factor=[1.0 + 0.1 * i for i in range(pairs)],
                long_factor=[2.0 + 0.7 * i for i in range(pairs)], original_max_position_embeddings=32)


def sections(**other):
    return rope(mrope_section=[1, 2, 1], **other)


# Parts of wrapped models that see; nothing of them is in the numbers.
PIXTRAL = {"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8,
           "image_size": 28, "patch_size": 14}
SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
          "image_size": 28, "patch_size": 14}
CLIP = {**SIGLIP, "model_type": "clip_vision_model", "projection_dim": 16}
QWEN_VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "out_hidden_size": 32}
MINISTRAL3 = sizes(model_type="ministral3", head_dim=8, rope_parameters={**YARN, "llama_4_scaling_beta": 0.3, "mscale": 1.0,
                                                                         "mscale_all_dim": 1.0, "max_position_embeddings": 128})
QWEN35_EXPERTS = {**DELTA, "rope_parameters": rope(partial_rotary_factor=0.25, mrope_section=[1, 1, 0], mrope_interleaved=True),
                  "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24,
                  "router_aux_loss_coef": 0.05}


CONFIGS = {
    "smollm3": sizes(model_type="smollm3", num_hidden_layers=4, rope_parameters=rope(50000.0), attention_bias=True, mlp_bias=True),
    "smollm3-windows": sizes(model_type="smollm3", num_hidden_layers=4, rope_parameters=rope(50000.0), use_sliding_window=True,
                             sliding_window=8, no_rope_layers=[1, 0, 1, 0]),
    "seed_oss": sizes(model_type="seed_oss", head_dim=16, rope_parameters=rope(), attention_out_bias=True, **NO_DROPOUT),
    "ernie4_5": sizes(model_type="ernie4_5", head_dim=8, rope_parameters=rope(), use_bias=True),
    "hunyuan_v1_dense": sizes(model_type="hunyuan_v1_dense", head_dim=8, rope_parameters=rope(rope_type="dynamic", alpha=50.0, factor=1.0)),
    "olmo3": sizes(model_type="olmo3", **WINDOWS, rope_parameters={"full_attention": {**YARN, "rope_theta": 500000.0, "attention_factor": 1.2},
                                                                   "sliding_attention": rope(500000.0)}),
    "granite": sizes(model_type="granite", rope_parameters=rope(), embedding_multiplier=3.3, logits_scaling=4.5, residual_multiplier=0.22,
                     attention_multiplier=0.3, attention_bias=True, mlp_bias=True),
    "gemma": sizes(model_type="gemma", head_dim=16, rope_parameters=rope()),
    "gemma-wide-heads": sizes(model_type="gemma", head_dim=256, num_attention_heads=2, num_key_value_heads=1, rope_parameters=rope()),
    "gemma2": sizes(model_type="gemma2", head_dim=16, rope_parameters=rope(), query_pre_attn_scalar=24, attn_logit_softcapping=2.0,
                    final_logit_softcapping=3.0, **WINDOWS),
    "gemma3": sizes(model_type="gemma3_text", head_dim=16, query_pre_attn_scalar=24, rope_parameters=BY_LAYER, **WINDOWS),
    "gemma3-caps": sizes(model_type="gemma3_text", head_dim=16, rope_parameters=BY_LAYER, final_logit_softcapping=3.0, **WINDOWS),
    "glm": sizes(model_type="glm", head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5)),
    "glm4": sizes(model_type="glm4", head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5)),
    "cohere": sizes(model_type="cohere", rope_parameters=rope(), logit_scale=0.3, attention_bias=True),
    "gemma4": sizes(model_type="gemma4_text", attention_k_eq_v=True, hidden_size_per_layer_input=0, final_logit_softcapping=3.0, **{**GEMMA4, **WINDOWS}),
    "gemma4-experts": sizes(model_type="gemma4_text", attention_k_eq_v=True, hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=8,
                            top_k_experts=2, moe_intermediate_size=16, **{**GEMMA4, **WINDOWS}),
    "gemma4-wrapped": {"model_type": "gemma4_unified", "vision_config": {"mm_embed_dim": 16, "mm_posemb_size": 4, "patch_size": 2}, "text_config": sizes(
        model_type="gemma4_unified_text", attention_bias=True, **{**GEMMA4, **WINDOWS, "pad_token_id": 0})},
    "gemma4-per-layer": sizes(model_type="gemma4_text", **GEMMA4_E),
    "gemma4-per-layer-wrapped": {"model_type": "gemma4", "vision_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
                                                                           "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8},
                                 "audio_config": None, "text_config": sizes(model_type="gemma4_text", attention_bias=True,
                                                                            **{**GEMMA4_E, "pad_token_id": 0, "use_double_wide_mlp": False})},
    "cohere2": sizes(model_type="cohere2", rope_parameters=rope(), logit_scale=0.3, **WINDOWS),
    "ministral3": MINISTRAL3,
    "exaone4": sizes(model_type="exaone4", rope_parameters=rope(), **WINDOWS),
    "exaone4-full": sizes(model_type="exaone4", rope_parameters=rope(), sliding_window=None, layer_types=["full_attention"] * 2),
    "phi3-longrope": sizes(model_type="phi3", rope_parameters=longrope(4), original_max_position_embeddings=32),
    "phi4-mini": sizes(model_type="phi3", rope_parameters={**longrope(3), "partial_rotary_factor": 0.75}, original_max_position_embeddings=32,
                       tie_word_embeddings=True, sliding_window=16),
    "starcoder2": sizes(model_type="starcoder2", rope_parameters=rope(), sliding_window=8),
    "stablelm": sizes(model_type="stablelm", rope_parameters=rope(partial_rotary_factor=0.25), use_qkv_bias=True),
    "stablelm-parallel": sizes(model_type="stablelm", rope_parameters=rope(partial_rotary_factor=0.5), use_parallel_residual=True),
    "nemotron": sizes(model_type="nemotron", rope_parameters=rope(partial_rotary_factor=0.5), attention_bias=True, mlp_bias=True),
    "phi": sizes(model_type="phi", rope_parameters=rope(partial_rotary_factor=0.5)),
    "ministral": sizes(model_type="ministral", head_dim=8, rope_parameters=rope(), **WINDOWS),
    "arcee": sizes(model_type="arcee", rope_parameters=YARN, mlp_bias=True),
    "cwm": sizes(model_type="cwm", head_dim=8, rope_parameters=LLAMA3, **WINDOWS),
    "helium": sizes(model_type="helium", head_dim=8, rope_parameters=rope(), attention_bias=True, mlp_bias=True),
    "hyperclovax": sizes(model_type="hyperclovax", rope_parameters=rope(), embedding_multiplier=3.3, logits_scaling=0.3,
                         residual_multiplier=0.22, attention_multiplier=0.3, attention_bias=True, mlp_bias=True),
    "jais2": sizes(model_type="jais2", head_dim=8, rope_parameters=rope()),
    "vaultgemma": sizes(model_type="vaultgemma", head_dim=16, rope_parameters=rope(), query_pre_attn_scalar=24, attn_logit_softcapping=2.0,
                        final_logit_softcapping=3.0, **WINDOWS),
    "qwen3_next": sizes(model_type="qwen3_next", num_experts=0, full_attention_interval=2, attention_bias=True, **DELTA),
    "qwen3_5": sizes(model_type="qwen3_5_text", num_hidden_layers=4,
                     **{**DELTA, "rope_parameters": rope(partial_rotary_factor=0.25, mrope_section=[1, 1, 0], mrope_interleaved=True)}),
    "qwen3_5-lengths": sizes(model_type="qwen3_5_text", full_attention_interval=2, **{**DELTA, "max_position_embeddings": 8192}),
    "mistral3-mistral": {"model_type": "mistral3", "tie_word_embeddings": False, "vision_config": PIXTRAL,
                         "text_config": sizes(model_type="mistral", head_dim=8, rope_parameters=rope(), sliding_window=None)},
    "mistral3-ministral3": {"model_type": "mistral3", "vision_config": PIXTRAL, "text_config": MINISTRAL3},
    "gemma3-wrapped": {"model_type": "gemma3", "vision_config": SIGLIP, "mm_tokens_per_image": 4,
                       "text_config": sizes(model_type="gemma3_text", head_dim=16, query_pre_attn_scalar=24, rope_parameters=BY_LAYER, **WINDOWS)},
    "qwen3_vl": {"model_type": "qwen3_vl", "vision_config": {**QWEN_VISION, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
                 "tie_word_embeddings": True,
                 "text_config": sizes(model_type="qwen3_vl_text", head_dim=8, rope_parameters=sections(mrope_interleaved=True))},
    "qwen3_5-wrapped": {"model_type": "qwen3_5", "vision_config": {**QWEN_VISION, "num_position_embeddings": 16},
                        "text_config": sizes(model_type="qwen3_5_text", num_hidden_layers=2, layer_types=["linear_attention", "full_attention"],
                                             **{**DELTA, "rope_parameters": rope(partial_rotary_factor=0.25, mrope_section=[1, 1, 0],
                                                                                 mrope_interleaved=True)})},
    "qwen2_5_vl": {"model_type": "qwen2_5_vl", "vision_config": {**QWEN_VISION, "fullatt_block_indexes": [0]},
                   "text_config": sizes(model_type="qwen2_5_vl_text", rope_parameters=sections())},
    "llava": {"model_type": "llava", "vision_config": CLIP, "text_config": sizes(model_type="llama", head_dim=8, rope_parameters=rope())},
    "qwen3_moe": sizes(model_type="qwen3_moe", head_dim=8, rope_parameters=rope(), num_experts=8, num_experts_per_tok=2,
                       moe_intermediate_size=24, norm_topk_prob=True, router_aux_loss_coef=0.05),
    "qwen3_moe-dense-layers": sizes(model_type="qwen3_moe", head_dim=8, rope_parameters=rope(), num_experts=6, num_experts_per_tok=3,
                                    moe_intermediate_size=16, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[1],
                                    attention_bias=True, router_aux_loss_coef=0.0),
    "qwen3_next-experts": sizes(model_type="qwen3_next", num_hidden_layers=4, full_attention_interval=2, num_experts=8, num_experts_per_tok=2,
                                moe_intermediate_size=16, shared_expert_intermediate_size=24, mlp_only_layers=[2], router_aux_loss_coef=0.05,
                                **DELTA),
    "gpt_oss": sizes(model_type="gpt_oss", head_dim=8, num_local_experts=8, num_experts_per_tok=2, swiglu_alpha=1.3, swiglu_limit=0.9,
                     router_aux_loss_coef=0.05, rope_parameters={**YARN, "truncate": False},
                     **{**WINDOWS, "num_hidden_layers": 3, "layer_types": WINDOWS["layer_types"][:3]}),
    "granitemoe": sizes(model_type="granitemoe", rope_parameters=rope(), num_local_experts=8, num_experts_per_tok=3, router_aux_loss_coef=0.05,
                        embedding_multiplier=3.3, logits_scaling=4.5, residual_multiplier=0.4, attention_multiplier=0.3),
    "granitemoehybrid": sizes(model_type="granitemoehybrid", num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40,
                              num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"], embedding_multiplier=3.3, logits_scaling=4.5,
                              residual_multiplier=0.4, attention_multiplier=0.3, **MAMBA),
    "granitemoehybrid-experts": sizes(model_type="granitemoehybrid", rope_parameters=rope(), position_embedding_type="rope",
                                      num_local_experts=8, num_experts_per_tok=3, router_aux_loss_coef=0.05, shared_intermediate_size=40,
                                      layer_types=["linear_attention", "full_attention"], attention_multiplier=0.3,
                                      **{**MAMBA, "mamba_n_groups": 1}),
    "bamba": sizes(model_type="bamba", num_hidden_layers=3, attn_layer_indices=[1], rope_parameters=rope(partial_rotary_factor=0.5),
                   mamba_proj_bias=True, attention_bias=True, mlp_bias=True, **MAMBA),
    "nemotron_h": {key: value for key, value in sizes(
        model_type="nemotron_h", head_dim=8, layers_block_type=["linear_attention", "moe", "full_attention", "mlp"], ssm_state_size=8,
        mamba_num_heads=4, mamba_head_dim=12, n_groups=2, time_step_min=0.6, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
        moe_intermediate_size=16, moe_shared_expert_intermediate_size=24, routed_scaling_factor=1.7, mlp_bias=True,
        use_bias=True).items() if key != "num_hidden_layers"},
    "glm4_moe": sizes(model_type="glm4_moe", head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5), num_hidden_layers=3,
                      n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=2, n_group=4, topk_group=2,
                      routed_scaling_factor=1.7, use_qk_norm=True, attention_bias=True),
    "glm4_moe-one-group": sizes(model_type="glm4_moe", rope_parameters=rope(partial_rotary_factor=0.5), first_k_dense_replace=0,
                                n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=False),
    "ernie4_5_moe": sizes(model_type="ernie4_5_moe", rope_parameters=rope(), num_hidden_layers=3, moe_num_experts=8, moe_k=2,
                          moe_intermediate_size=16, moe_num_shared_experts=2, router_aux_loss_coef=0.05, use_bias=True,
                          tie_word_embeddings=False),
    "ernie4_5_moe-alone": sizes(model_type="ernie4_5_moe", rope_parameters=rope(), num_hidden_layers=4, moe_num_experts=6, moe_k=3,
                                moe_intermediate_size=24, moe_num_shared_experts=0, moe_layer_start_index=0, moe_layer_end_index=2,
                                moe_layer_interval=2, router_aux_loss_coef=0.02),
    "qwen3_5_moe": sizes(model_type="qwen3_5_moe_text", num_hidden_layers=3, full_attention_interval=2, **QWEN35_EXPERTS),
    "qwen3_5_moe-wrapped": {"model_type": "qwen3_5_moe", "vision_config": {**QWEN_VISION, "num_position_embeddings": 16},
                            "text_config": sizes(model_type="qwen3_5_moe_text", layer_types=["linear_attention", "full_attention"],
                                                 **QWEN35_EXPERTS)},
    "apertus": sizes(model_type="apertus", head_dim=8, rope_parameters=LLAMA3, attention_bias=True),
    "qwen2_moe": sizes(model_type="qwen2_moe", rope_parameters=rope(), num_hidden_layers=3, num_experts=6, num_experts_per_tok=2,
                       moe_intermediate_size=16, shared_expert_intermediate_size=24, mlp_only_layers=[1], router_aux_loss_coef=0.05),
    "dots1": sizes(model_type="dots1", rope_parameters=rope(), num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=8,
                   num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=2, n_group=2, topk_group=1, norm_topk_prob=True,
                   routed_scaling_factor=1.7, sliding_window=8, max_window_layers=2),
    "flex_olmo": sizes(model_type="flex_olmo", rope_parameters=rope(500000.0), num_experts=7, num_experts_per_tok=3, norm_topk_prob=True,
                       router_aux_loss_coef=0.05),
    "hy_v3": sizes(model_type="hy_v3", head_dim=8, rope_parameters=rope(), num_hidden_layers=3, num_experts=8, num_experts_per_tok=2,
                   moe_intermediate_size=16, router_scaling_factor=1.7, n_group=4, topk_group=1),  # groups that transformers does not read
    "axk1": sizes(model_type="axk1", num_key_value_heads=4, rope_parameters=YARN, mlp_layer_types=["dense", "sparse"], n_routed_experts=8,
                  num_experts_per_tok=2, n_group=4, topk_group=2, moe_intermediate_size=16, **LATENT),
    "minicpm3": {**sizes(model_type="minicpm3", num_key_value_heads=4, rope_parameters=rope(), dim_model_base=8), **LATENT},
    "mistral3-mistral4": {"model_type": "mistral3", "vision_config": PIXTRAL, "tie_word_embeddings": False, "text_config": sizes(
        model_type="mistral4", num_key_value_heads=4, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=16,
        first_k_dense_replace=1, num_hidden_layers=3, attention_bias=True, routed_scaling_factor=1.5, **LATENT,
        rope_parameters={**YARN, "llama_4_scaling_beta": 0.3, "mscale": 1.0, "mscale_all_dim": 1.0, "partial_rotary_factor": 8 / 24})},
    "mimo_v2_flash": sizes(model_type="mimo_v2_flash", head_dim=16, v_head_dim=12, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1,
                           moe_intermediate_size=16, mlp_layer_types=["dense"] + ["sparse"] * 3, attention_bias=True, routed_scaling_factor=1.5, rope_parameters={
                               kind: rope(theta, partial_rotary_factor=0.54)
                               for kind, theta in (("full_attention", 5000000.0), ("sliding_attention", 10000.0))}, **WINDOWS),
    "minimax_m2": sizes(model_type="minimax_m2", head_dim=8, rope_parameters=rope(partial_rotary_factor=0.5), num_local_experts=8,
                        num_experts_per_tok=2, router_aux_loss_coef=0.0),
    "qwen3_vl_moe": {"model_type": "qwen3_vl_moe",
                     "vision_config": {**QWEN_VISION, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
                     "text_config": sizes(model_type="qwen3_vl_moe_text", head_dim=8, rope_parameters=sections(mrope_interleaved=True),
                                          num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24, mlp_only_layers=[1],
                                          num_hidden_layers=3, router_aux_loss_coef=0.05)},
    "afmoe": sizes(model_type="afmoe", head_dim=8, rope_parameters=rope(), num_hidden_layers=3, num_dense_layers=1, num_experts=4,
                   num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=2, route_scale=1.7, mup_enabled=True,
                   sliding_window=8, global_attn_every_n_layers=2, n_group=2, topk_group=1),
    "cohere2_moe": sizes(model_type="cohere2_moe", head_dim=8, num_hidden_layers=4, num_experts=4, num_experts_per_tok=2, num_shared_experts=2,
                         first_k_dense_replace=1, prefix_dense_intermediate_size=40, sliding_window=8, sliding_window_pattern=2,
                         logit_scale=0.3),
    "laguna": sizes(model_type="laguna", head_dim=8, num_attention_heads_per_layer=[4, 6], num_experts=4, num_experts_per_tok=2,
                    moe_intermediate_size=16, shared_expert_intermediate_size=24, moe_routed_scaling_factor=1.7, router_aux_loss_coef=0.0,
                    sliding_window=8, layer_types=["full_attention", "sliding_attention"],
                    rope_parameters={"full_attention": {**YARN, "partial_rotary_factor": 0.5}, "sliding_attention": rope(500.0)}),
    "mellum": sizes(model_type="mellum", head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, router_aux_loss_coef=0.05,
                    sliding_window=8, layer_types=["full_attention", "sliding_attention"],
                    rope_parameters={"full_attention": YARN, "sliding_attention": rope(500.0)}),
    "granitemoeshared": sizes(model_type="granitemoeshared", rope_parameters=rope(), num_local_experts=4, num_experts_per_tok=2,
                              router_aux_loss_coef=0.05, shared_intermediate_size=40, embedding_multiplier=3.3, logits_scaling=4.5,
                              residual_multiplier=0.4, attention_multiplier=0.3),
    "solar_open": {key: value for key, value in sizes(
        model_type="solar_open", head_dim=8, rope_parameters=YARN, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=16,
        n_group=4, topk_group=2, routed_scaling_factor=1.7, attention_bias=True).items() if key != "intermediate_size"},
    "exaone_moe": sizes(model_type="exaone_moe", rope_parameters=rope(), num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16,
                        num_shared_experts=2, first_k_dense_replace=1, **WINDOWS),
    "hunyuan_v1_moe": sizes(model_type="hunyuan_v1_moe", head_dim=8, rope_parameters=rope(rope_type="dynamic", alpha=50.0, factor=1.0),
                            num_experts=8, moe_topk=2, attention_bias=True),
    "lfm2": sizes(model_type="lfm2", num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], rope_parameters=rope(),
                  block_multiple_of=8, conv_bias=True),
    "lfm2_moe": sizes(model_type="lfm2_moe", num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], rope_parameters=rope(),
                      num_dense_layers=1, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, routed_scaling_factor=1.7),
    "falcon_h1": sizes(model_type="falcon_h1", rope_parameters=rope(), mamba_d_ssm=48, **{**MAMBA, "mamba_d_head": 12}, mamba_rms_norm=False,
                       embedding_multiplier=2.3, lm_head_multiplier=0.4, key_multiplier=0.7, attention_in_multiplier=1.2,
                       attention_out_multiplier=0.6, ssm_in_multiplier=1.3, ssm_out_multiplier=0.5, mlp_multipliers=[0.8, 0.7],
                       ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 0.7]),
    "falcon_h1-norms": sizes(model_type="falcon_h1", rope_parameters=rope(), mamba_d_ssm=None, **MAMBA, mamba_rms_norm=True,
                             mamba_norm_before_gate=False, projectors_bias=True, mamba_proj_bias=True, attention_bias=True, mlp_bias=True),
    "deepseek_v2": sizes(model_type="deepseek_v2", num_key_value_heads=4, rope_parameters={**YARN, "mscale": 0.7, "mscale_all_dim": 0.7},
                         num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=2, n_group=4, topk_group=2,
                         topk_method="group_limited_greedy", moe_intermediate_size=16, n_shared_experts=2, routed_scaling_factor=1.7, **LATENT),
    "deepseek_v2-lite": sizes(model_type="deepseek_v2", num_key_value_heads=4, rope_parameters=rope(), first_k_dense_replace=2,
                              num_experts_per_tok=2, **{**LATENT, "q_lora_rank": None}),
    "deepseek_v3": sizes(model_type="deepseek_v3", num_key_value_heads=4, rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
                         first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=2, n_group=4, topk_group=2,
                         moe_intermediate_size=16, n_shared_experts=1, routed_scaling_factor=1.7, attention_bias=True, **LATENT),
    "kimi_linear": sizes(model_type="kimi_linear", num_key_value_heads=4, num_hidden_layers=3, linear_head_dim=12, linear_num_heads=4,
                         layer_types=["linear_attention", "full_attention", "linear_attention"], num_local_experts=8, num_experts_per_tok=2,
                         n_group=4, topk_group=2, moe_intermediate_size=16, routed_scaling_factor=1.7, **{**LATENT, "q_lora_rank": None}),
    "bailing_hybrid": sizes(model_type="bailing_hybrid", num_key_value_heads=4, num_hidden_layers=3, head_dim=8, layer_group_size=2,
                            rope_parameters=rope(), num_local_experts=8, num_experts_per_tok=2, n_group=4, topk_group=2, moe_intermediate_size=16,
                            first_k_dense_replace=1, **{name: size for name, size in LATENT.items() if name != "q_lora_rank"}),
    "olmo_hybrid": sizes(model_type="olmo_hybrid", num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"],
                         linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, rope_parameters=rope()),
    "olmo_hybrid-still": sizes(model_type="olmo_hybrid", num_key_value_heads=4, num_hidden_layers=2, linear_allow_neg_eigval=False,
                               layer_types=["linear_attention", "full_attention"], rope_parameters=None),
    "youtu": sizes(model_type="youtu", num_key_value_heads=4, rope_parameters=rope(), tie_word_embeddings=True, **LATENT),
    "glm4_moe_lite": sizes(model_type="glm4_moe_lite", num_key_value_heads=4, rope_parameters=rope(), mlp_layer_types=["dense", "sparse"],
                           n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1,
                           **{**LATENT, "v_head_dim": 20}),
    "mixtral": sizes(model_type="mixtral", rope_parameters=rope(1000000.0), num_local_experts=4, num_experts_per_tok=2, sliding_window=8,
                     router_aux_loss_coef=0.02),
    "olmoe": sizes(model_type="olmoe", rope_parameters=rope(), num_experts=16, num_experts_per_tok=4, router_aux_loss_coef=0.01),
    "gpt_neox": sizes(model_type="gpt_neox", num_key_value_heads=4, rope_parameters=rope(partial_rotary_factor=0.5)),
    "gpt_neox-serial": sizes(model_type="gpt_neox", num_key_value_heads=4, rope_parameters=rope(partial_rotary_factor=0.25),
                             use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True),
    # Of an odd number of elements, one more rotates.
    "gpt_neox-odd": {**sizes(model_type="gpt_neox", num_attention_heads=2, num_key_value_heads=2,
                             rope_parameters=rope(partial_rotary_factor=0.25)), "hidden_size": 24},
    "glm4_moe-odd": sizes(model_type="glm4_moe", head_dim=2, rope_parameters=rope(partial_rotary_factor=0.5), first_k_dense_replace=0,
                          n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    # An odd number only by the part that rope_parameters replaces.
    "qwen3_next-part": sizes(model_type="qwen3_next", num_experts=0, full_attention_interval=2,
                             **{**DELTA, "head_dim": 12, "rope_parameters": rope(partial_rotary_factor=0.5)}),
    "gpt2": {"model_type": "gpt2", "n_embd": 32, "n_inner": 48, "n_layer": 3, "n_head": 4, "n_positions": 128, "attn_pdrop": 0.0,
             "embd_pdrop": 0.0, "resid_pdrop": 0.0, "scale_attn_by_inverse_layer_idx": True, "bos_token_id": 1, "eos_token_id": 2},
    "olmo": sizes(model_type="olmo", rope_parameters=rope()),
    "llama-biases": sizes(model_type="llama", head_dim=8, rope_parameters=rope(), attention_bias=True, mlp_bias=True, hidden_act="gelu"),
}

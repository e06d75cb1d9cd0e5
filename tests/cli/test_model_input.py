"""Models whose config.json or weights cannot be trained: what is said, with which code, and how soon."""

import json
import math
import os
import shutil
import struct
import tempfile
import time
import unittest

from trainer import TrainerTest, read_steps, run

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(FOLDER, "..", "parity", "data", "models", "qwen2-tiny")
ROWS = os.path.join(FOLDER, "..", "parity", "data", "rows", "pretokenized.jsonl")


class ModelInput(TrainerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = os.path.join(folder.name, "model")
        self.output = os.path.join(folder.name, "out")
        shutil.copytree(MODEL, self.model)
        with open(os.path.join(MODEL, "config.json")) as file:
            self.config = json.load(file)

    def write_config(self, **changes):
        with open(os.path.join(self.model, "config.json"), "w") as file:
            json.dump({**self.config, **changes}, file)

    def train(self, *flags, ranks=None):
        return run("train", "--model_name_or_path", self.model, "--dataset_name", ROWS, "--max_length", "48",
                   "--max_steps", "1", "--output_dir", self.output, *flags, ranks=ranks)

    def test_positions_that_are_not_known_are_refused(self):
        llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0}
        for changes, words in (
            ({"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}}, "rope_parameters: rope_type = \"dynamic\""),
            ({"rope_scaling": {"type": "longrope"}}, "rope_scaling: short_factor: must be a list of 8 numbers above 0, one for each pair of elements that rotates"),
            ({"rope_parameters": {"rope_type": "yarn"}}, "factor = null: must be a number above 0"),
            ({"rope_scaling": {"type": "linear", "factor": 0}}, "rope_scaling: factor = 0: must be a number above 0"),
            ({"rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 3}}, 
             "beta_fast = 3: rope_type \"linear\" does not use it, in transformers neither; remove it"),
            ({"rope_scaling": llama3}, "high_freq_factor = 1: must be above low_freq_factor = 1"),
            ({"rope_parameters": {"partial_rotary_factor": 0.5}},
             "rope_parameters: partial_rotary_factor = 0.5: whole heads rotate in this architecture; set it to 1"),
            ({"rope_parameters": {"full_attention": {"rope_type": "default"}}},
             "full_attention: positions that differ from layer to layer are not served"),
            ({"rope_parameters": {"factor": 2.0}}, "factor = 2.0"),
            ({"rope_parameters": "x"}, "rope_parameters = \"x\": must be an object"),
            ({"rope_parameters": {"rope_type": 3}}, "rope_type = 3"),
            ({"rope_parameters": {"rope_theta": -1}}, "rope_theta = -1: must be a number above 0"),
        ):
            with self.subTest(words):
                self.write_config(**changes)
                self.expect_one_message(self.train(), 78, words)
        self.write_config(rope_parameters={"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 1.0})
        self.expect(self.train(), 0)

    def test_positions_count_before_the_default_of_a_part(self):
        """GLM rotates half of a head by default, which of 6 elements are 3."""
        small = {"architectures": ["GlmForCausalLM"], "model_type": "glm", "vocab_size": 64, "hidden_size": 24, "intermediate_size": 32,
                 "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64,
                 "pad_token_id": 1, "eos_token_id": 2}
        for part, code, words in ((None, 78, "3 elements of a head would rotate"), (0.67, 0, "")):
            with self.subTest(part):
                self.config = {**small, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
                if part:
                    self.config["rope_parameters"]["partial_rotary_factor"] = part
                self.write_config()
                self.expect(run("init", "--config_json", os.path.join(self.model, "config.json"), "--output_dir", self.output), code, words)

    def test_infinity_as_python_writes_it(self):
        """Models of transformers 4 have it so, and transformers 5 has it as an object, which we write."""
        self.config = {"architectures": ["BambaForCausalLM"], "model_type": "bamba", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24,
                       "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "mamba_n_heads": 2, "mamba_d_state": 8,
                       "mamba_expand": 1, "attn_layer_indices": [], "_comment": 'a " Infinity of words', "time_step_limit": [0.0, math.inf]}
        self.write_config()
        self.expect(run("init", "--config_json", os.path.join(self.model, "config.json"), "--output_dir", self.output), 0)
        with open(os.path.join(self.output, "config.json")) as file:
            config = json.load(file)
        self.assertEqual(config["time_step_limit"], [0.0, {"__float__": "Infinity"}])
        self.assertEqual(config["_comment"], self.config["_comment"])

    def test_long_values_are_cut(self):
        self.write_config(layer_types=["full_attention"] * 100_000, num_hidden_layers=3)
        result = self.train()
        self.expect_one_message(result, 78, "bytes)")
        self.assertLess(len(result.stderr), 2000)

    def test_nested_beyond_any_model(self):
        with open(os.path.join(self.model, "config.json"), "w") as file:
            file.write('{"rms_norm_eps": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}")
        self.expect_one_message(self.train(), 65, "is not readable JSON")

    def test_positions_that_are_scaled(self):
        yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "mscale": None}
        losses = []
        for changes in ({}, {"rope_scaling": {"type": "linear", "factor": 2}}, {"rope_scaling": yarn}):
            with self.subTest(changes), tempfile.TemporaryDirectory() as output:
                self.write_config(**changes)
                self.expect(self.train("--output_dir", output, "--logging_steps", "1"), 0)
                losses.append(read_steps(output)[0]["loss"])
        self.assertEqual(len(set(losses)), 3, losses)

    def test_biases_and_activations_of_other_models(self):
        for changes, words in (
            ({"hidden_act": "tanh"}, "hidden_act = tanh: must be one of silu, swish, gelu"),
            ({"attention_dropout": 0.1}, "attention_dropout = 0.1: dropout is not served; set it to 0"),
            ({"pad_token_id": 512}, "pad_token_id = 512: must be a token below vocab_size = 512"),
        ):
            with self.subTest(words):
                self.write_config(**changes)
                self.expect_one_message(self.train(), 78, words)

    def test_what_phi3_does_not_do_here(self):
        self.config.update(architectures=["Phi3ForCausalLM"], model_type="phi3")
        scaled = "rope_scaling: Phi3ForCausalLM scales positions by \"longrope\" alone"
        for changes, words in (
            ({"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}}, "short_factor: must be a list of 8 numbers"),
            ({"rope_scaling": {"type": "su"}}, "type = \"su\""),
            ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, scaled),
            ({"rope_scaling": {"type": "linear", "factor": 4.0}}, scaled),
            ({"partial_rotary_factor": 1.75}, "partial_rotary_factor = 1.75: must be at most 1"),
            ({"resid_pdrop": 0.1}, "resid_pdrop = 0.1: dropout is not served; set it to 0"),
        ):
            with self.subTest(words):
                self.write_config(**changes)
                self.expect_one_message(self.train(), 78, words)
        del self.config["pad_token_id"]
        self.write_config()
        self.expect_one_message(self.train(), 78, "pad_token_id = 32000, the default: must be a token below vocab_size = 512")
        self.write_config(pad_token_id=None, sliding_window=None)
        self.expect_one_message(self.train(), 65, "self_attn.qkv_proj.weight is not in the model's files")

    def test_fields_of_families_that_are_not_served(self):
        def of(name, kind, **other):
            return {"architectures": [name], "model_type": kind, **other}

        def kimi(**other):
            return {**of("KimiLinearForCausalLM", "kimi_linear", sliding_window=None, num_key_value_heads=4, max_position_embeddings=None,
                         model_max_length=64, moe_intermediate_size=8, tie_word_embeddings=False), **other}

        def gemma4(**other):
            given = {"hidden_activation": "gelu_pytorch_tanh", "rope_parameters": None, "hidden_size_per_layer_input": 0, **other}
            return of("Gemma4ForCausalLM", "gemma4_text", **{key: value for key, value in given.items() if other.get(key, 0) is not None})

        for changes, words in (
            (of("SmolLM3ForCausalLM", "smollm3", no_rope_layers=[1]), "no_rope_layers = [1]: must be a list with 1 or 0 for each"),
            (of("SmolLM3ForCausalLM", "smollm3", layer_types=["sliding_attention"] * 3),
             "layer_types: has \"sliding_attention\", which needs use_sliding_window = true"),
            (of("GlmForCausalLM", "glm", head_dim=16, partial_rotary_factor=0.45), "7 elements of a head would rotate"),
            (of("Qwen2ForCausalLM", "qwen2", is_causal=False), "is_causal = false: a token would see those behind it"),
            (of("BambaForCausalLM", "bamba", mamba_n_heads=4, partial_rotary_factor=1.0),
             "partial_rotary_factor = 1.0: transformers reads it in rope_parameters alone"),
            (of("Olmo3ForCausalLM", "olmo3", rope_parameters=None, sliding_window_pattern=2),
             "sliding_window_pattern = 2: transformers reads no such field of this family and goes by 4; say what is meant in layer_types"),
            (kimi(num_expert_group=2, n_group=4), "num_expert_group = 2 and n_group = 4: are one number; correct the wrong one"),
            (of("AXK1ForCausalLM", "axk1", sliding_window=None, num_key_value_heads=4, moe_intermediate_size=8, moe_layer_freq=2),
             "moe_layer_freq = 2: is not served; it must be 1"),
            (of("Glm4MoeLiteForCausalLM", "glm4_moe_lite", sliding_window=None, num_key_value_heads=4, moe_intermediate_size=8,
                first_k_dense_replace=2), "first_k_dense_replace = 2: transformers reads no such field of this family and goes by 1"),
            (of("GPT2LMHeadModel", "gpt2"), "hidden_size: this family names it n_embd"),
            (of("SeedOssForCausalLM", "seed_oss"), "residual_dropout: is 0.1 by default, and dropout is not served; set it to 0"),
            (of("CohereForCausalLM", "cohere", use_qk_norm=True), "use_qk_norm = true: is not served; must be false"),
            (of("StableLmForCausalLM", "stablelm", qk_layernorm=True), "qk_layernorm = true: is not served; must be false"),
            (of("Gemma3ForCausalLM", "gemma3_text", hidden_activation="gelu_pytorch_tanh", rope_parameters=None,
                use_bidirectional_attention=True), "use_bidirectional_attention = true: is not served"),
            (of("Gemma3ForCausalLM", "gemma3_text", attn_logit_softcapping=50.0, rope_parameters=None), "attn_logit_softcapping: "),
            (of("Gemma3ForCausalLM", "gemma3_text", rope_parameters={"rope_theta": 1e6}), "rope_parameters: rope_theta: must be an object for each of \"full_attention\""),
            (gemma4(hidden_size_per_layer_input=None), "vocab_size_per_layer_input = 262144: must be vocab_size = "),
            (gemma4(hidden_size_per_layer_input=8, vocab_size_per_layer_input=7), "vocab_size_per_layer_input = 7: must be vocab_size = "),
            (gemma4(num_kv_shared_layers=9), "num_kv_shared_layers = 9: block 0 takes the keys of an earlier one that sees as far, and none of the 0 blocks before does"),
            (gemma4(num_kv_shared_layers=-1), "num_kv_shared_layers = -1: must be a whole number above 0"),
            (gemma4(enable_moe_block=True), "num_experts = null: must be a whole number above 0"),
            (gemma4(use_bidirectional_attention="all"), "use_bidirectional_attention = \"all\": tokens see earlier ones alone"),
            (gemma4(use_bidirectional_attention=True), "use_bidirectional_attention = true: tokens see earlier ones alone"),
            (gemma4(per_layer_config=[1]), "per_layer_config = [1]: must be an object"),
            (gemma4(per_layer_config={"2": 1}), "per_layer_config: 2 = 1: must be an object"),
            (gemma4(per_layer_config={"2": {"sliding_window": 4}}), "layers differ in head_dim and num_key_value_heads alone"),
            (gemma4(per_layer_config={"0": {"head_dim": 32}}), "per_layer_config: 0: layers with \"full_attention\" alone have heads of their own"),
            (gemma4(attention_k_eq_v=True, num_global_key_value_heads=3), "layers with \"full_attention\": num_key_value_heads = 3: must divide"),
            (gemma4(rope_parameters={"full_attention": {"rope_type": "default", "partial_rotary_factor": 0.25}}),
             "partial_rotary_factor: is served with rope_type \"proportional\" alone"),
            (of("Gemma2ForCausalLM", "gemma2", final_logit_softcapping=0), "final_logit_softcapping = 0: must be a number above 0"),
            (of("Olmo3ForCausalLM", "olmo3", rope_parameters=None, layer_types=["chunked_attention"]), "layer_types: \"chunked_attention\""),
            (of("Ministral3ForCausalLM", "ministral3", rope_parameters={}), "rope_parameters: llama_4_scaling_beta = null: must be a number above 0"),
            (of("Qwen3NextForCausalLM", "qwen3_next"), "moe_intermediate_size = null: must be a whole number above 0"),
            (of("Qwen3NextForCausalLM", "qwen3_next", moe_intermediate_size=16, shared_expert_intermediate_size=-1),
             "shared_expert_intermediate_size = -1: must be a whole number above 0"),
            (of("Qwen3NextForCausalLM", "qwen3_next", num_experts=0, linear_num_value_heads=3, linear_num_key_heads=2),
             "linear_num_value_heads = 3: must be a multiple of linear_num_key_heads = 2"),
            (of("Qwen3_5ForCausalLM", "qwen3_5_text", linear_conv_kernel_dim=3), "linear_conv_kernel_dim = 3: must be 4"),
            (of("Qwen3_5ForCausalLM", "qwen3_5_text", hidden_act="gelu"), "hidden_act: must be \"silu\" in a model with gated delta nets"),
            (of("Qwen3_5ForCausalLM", "qwen3_5_text", layer_types=["linear_attention", "sliding_attention", "full_attention"]),
             "layer_types: \"sliding_attention\": must be \"full_attention\" or \"linear_attention\""),
            (of("MistralForCausalLM", "mistral", layer_types=["full_attention"] * 2), "layer_types: a model of this type has one window"),
            (of("GraniteMoeHybridForCausalLM", "granitemoehybrid", mamba_n_heads=4, mlp_bias=True), "mlp_bias = true: is not served"),
            (of("GraniteMoeSharedForCausalLM", "granitemoeshared", shared_intermediate_size=8, mlp_bias=True), "mlp_bias = true: is not served"),
            (of("BambaForCausalLM", "bamba", mamba_n_heads=5), "mamba_n_heads = 5: must divide mamba_expand * hidden_size = "),
            (of("BambaForCausalLM", "bamba", mamba_n_heads=4, mamba_d_head=3), "mamba_d_head = 3: must be mamba_expand * hidden_size / mamba_n_heads"),
            (of("BambaForCausalLM", "bamba", mamba_n_heads=4, mamba_d_conv=3), "mamba_d_conv = 3: must be 4"),
            (of("BambaForCausalLM", "bamba", mamba_n_heads=4, time_step_limit=[0.0, 0.1]), "time_step_limit = [0.0,0.1]: must be [0.0,"),
            (of("BambaForCausalLM", "bamba", mamba_n_heads=4, z_loss_coefficient=0.1), "z_loss_coefficient = 0.1: a loss of the logits' size"),
            (of("BambaForCausalLM", "bamba", mamba_n_heads=4, attn_layer_indices=[99]), "attn_layer_indices: 99: must be the number of a layer"),
            (of("DeepseekV3ForCausalLM", "deepseek_v3", sliding_window=8, num_key_value_heads=4, head_dim=64, moe_intermediate_size=8),
             "sliding_window = 8: windows over latents are not served"),
            ({"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "vision_config": {}, "text_config": {
                "model_type": "mistral4", "vocab_size": 64, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 1,
                "num_attention_heads": 4, "num_key_value_heads": 4, "rope_parameters": {"partial_rotary_factor": 0.3}}},
             "rope_parameters: partial_rotary_factor = 0.3: must be the part of a head that qk_rope_head_dim rotates"),
            (of("MiMoV2FlashForCausalLM", "mimo_v2_flash", v_head_dim=193, rope_parameters=None), "v_head_dim = 193: must be at most head_dim = "),
            (of("MiMoV2FlashForCausalLM", "mimo_v2_flash", rope_parameters={"full_attention": {"rope_theta": 1e6}}),
             "rope_parameters: full_attention: partial_rotary_factor: must be there"),
            (of("MiniMaxM2ForCausalLM", "minimax_m2", output_router_logits=True), "output_router_logits = true"),
            (of("AfmoeForCausalLM", "afmoe", attention_bias=True, sliding_window=8, moe_intermediate_size=8), "attention_bias = true: is not served"),
            (of("Cohere2MoeForCausalLM", "cohere2_moe", expert_selection_fn="noisy"), "expert_selection_fn = noisy: must be \"softmax\" or \"sigmoid\""),
            (of("Cohere2MoeForCausalLM", "cohere2_moe", shared_expert_combination_strategy="gate"),
             "shared_expert_combination_strategy = gate: must be \"average\" or \"sum\""),
            (of("LagunaForCausalLM", "laguna", gating=False, moe_intermediate_size=8), "gating = false: must be true, \"per-head\" or \"per-element\""),
            (of("LagunaForCausalLM", "laguna", num_attention_heads_per_layer=[2, 3], moe_intermediate_size=8),
             "num_attention_heads_per_layer = [2,3]: must be a list with a multiple of num_key_value_heads"),
            (of("LagunaForCausalLM", "laguna", moe_router_logit_softcapping=30, moe_intermediate_size=8), "moe_router_logit_softcapping: is not served"),
            (of("MellumForCausalLM", "mellum", mlp_layer_types=["sparse", "dense"], moe_intermediate_size=8), "mlp_layer_types = [\"sparse\",\"dense\"]: must name"),
            (of("MellumForCausalLM", "mellum", rope_parameters={"full_attention": {"partial_rotary_factor": 0.5}}, moe_intermediate_size=8),
             "rope_parameters: full_attention: partial_rotary_factor = 0.5: whole heads rotate in this architecture"),
            (of("DeepseekV3ForCausalLM", "deepseek_v3", qk_rope_head_dim=7), "qk_rope_head_dim = 7: must be even"),
            (kimi(linear_conv_kernel_dim=3), "linear_conv_kernel_dim = 3: must be 4"),
            (kimi(mla_use_nope=False), "mla_use_nope = false: is not served; it must be true"),
            (kimi(linear_attn_config={"num_heads": 0}), "linear_attn_config: num_heads = 0: must be a whole"),
            (kimi(linear_attn_config={"kda_layers": [1, 2], "full_attn_layers": [2]}),
             "linear_attn_config: full_attn_layers = [2], kda_layers = [1,2]: must name each layer from 1 to num_hidden_layers = 3 once"),
            (kimi(linear_attn_config={"kda_layers": [1], "full_attn_layers": []}), "full_attn_layers = [], kda_layers = [1]: must name each layer"),
            (kimi(linear_attn_config=3), "linear_attn_config = 3: must be an object"),
            (kimi(architectures=["BailingHybridForCausalLM"], model_type="bailing_hybrid", num_experts=8, num_experts_per_token=2, num_expert_group=2,
                  topk_group=2, kda_lower_bound=5), "kda_lower_bound = 5: must be below 0"),
            (of("DeepseekV2ForCausalLM", "deepseek_v2", sliding_window=None, num_key_value_heads=4, moe_intermediate_size=8,
                num_experts_per_tok=2, topk_method="noaux_tc"), "topk_method = noaux_tc: must be"),
            (of("FalconH1ForCausalLM", "falcon_h1", mamba_n_heads=4, mamba_d_ssm=30), "mamba_n_heads = 4: must divide mamba_d_ssm = 30"),
            (of("FalconH1ForCausalLM", "falcon_h1", mamba_n_heads=4, mamba_d_ssm=64, mamba_d_head=16, mamba_rms_norm=True),
             "mamba_norm_before_gate = true: must be false beside mamba_rms_norm"),
            (of("FalconH1ForCausalLM", "falcon_h1", ssm_multipliers=[1, 2]), "ssm_multipliers = [1,2]: must be a list of 5 numbers above 0"),
            (of("FalconH1ForCausalLM", "falcon_h1", ssm_in_multiplier=0.5, mamba_proj_bias=True),
             "ssm_in_multiplier = 0.5: must be 1 beside mamba_proj_bias = true"),
            (of("Lfm2ForCausalLM", "lfm2", conv_L_cache=5), "conv_L_cache = 5: must be a whole number "),
            (of("Lfm2ForCausalLM", "lfm2", layer_types=["conv", "moe"]), "layer_types: \"moe\": must be \"full_attention\" or \"conv\""),
            (of("Lfm2ForCausalLM", "lfm2", full_attn_idxs=[99]), "full_attn_idxs: 99: must be the number of a layer"),
            (of("NemotronHForCausalLM", "nemotron_h", hybrid_override_pattern="MX*"),
             "hybrid_override_pattern = \"MX*\": must have a letter for each layer: M (Mamba2), * (attention), - (MLP) or E (experts); X is none"),
            (of("NemotronHForCausalLM", "nemotron_h", layers_block_type=["mamba", "full_attention", "conv"]),
             "layers_block_type: \"conv\": must be \"linear_attention\" (Mamba2), \"full_attention\", \"mlp\" or \"moe\""),
            (of("NemotronHForCausalLM", "nemotron_h", hybrid_override_pattern="M*"), "num_hidden_layers = "),
            (of("NemotronHForCausalLM", "nemotron_h", num_hidden_layers=2, hybrid_override_pattern="*-", mamba_num_heads=3, n_groups=2,
                tie_word_embeddings=False, sliding_window=None),
             "mamba_num_heads = 3: must be a multiple of n_groups = 2"),
            (of("NemotronHForCausalLM", "nemotron_h", num_hidden_layers=2, hybrid_override_pattern="*E", sliding_window=None,
                tie_word_embeddings=False, moe_intermediate_size=8, moe_latent_size=4), "moe_latent_size: experts behind a latent are not served; must be null"),
            (of("GraniteMoeHybridForCausalLM", "granitemoehybrid", mamba_n_heads=4, layer_types=["mamba", "moe"]),
             "layer_types: \"moe\": must be \"full_attention\" or \"linear_attention\""),
            (of("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", rope_parameters={"rope_type": "dynamic", "factor": 2.0}),
             "rope_parameters: rope_type = \"dynamic\""),
        ):
            with self.subTest(words):
                self.write_config(**changes)
                self.expect_one_message(self.train(), 78, words)

    def test_a_field_that_no_part_knows_is_named(self):
        self.write_config(hidden_akt="gelu", unheard_of=3)
        self.expect(self.train(), 0, "warning: " + self.model, "config.json: hidden_akt, unheard_of: no model of this program has such a "
                    "field, in transformers neither; it changes nothing (fields that are read: hidden_act)")
        self.write_config(_name_or_path="x", torch_dtype="bfloat16", use_cache=True)
        self.assertNotIn("changes nothing", self.train("--output_dir", self.output + "-known").stderr)

    def test_windows_without_a_length(self):
        def of(name, kind, **other):
            return {"architectures": [name], "model_type": kind, "sliding_window": None, **other}

        sliding = ["sliding_attention"] * self.config["num_hidden_layers"]
        for changes, words in (
            ({"use_sliding_window": True, "sliding_window": None}, "use_sliding_window = true: needs sliding_window, the number of tokens"),
            ({"layer_types": sliding}, "layer_types: has \"sliding_attention\", which needs use_sliding_window = true and sliding_window"),
            (of("Qwen3MoeForCausalLM", "qwen3_moe", use_sliding_window=True, moe_intermediate_size=8), "use_sliding_window = true: needs sliding_window"),
            (of("SmolLM3ForCausalLM", "smollm3", use_sliding_window=True, pad_token_id=None), "use_sliding_window = true: needs sliding_window"),
            (of("Gemma2ForCausalLM", "gemma2"), "sliding_window = null: layers with \"sliding_attention\" (layer_types) need"),
            (of("Exaone4ForCausalLM", "exaone4", layer_types=sliding), "sliding_window = null: layers with"),
            (of("GptOssForCausalLM", "gpt_oss", rope_parameters=None), "sliding_window = null: layers with"),
            ({"sliding_window": 0, "use_sliding_window": True}, "sliding_window = 0: must be a whole number above 0"),
        ):
            with self.subTest(words, **changes):
                self.write_config(**changes)
                self.expect_one_message(self.train(), 78, "config.json: ", words)

    def test_configs_that_name_no_model_or_two(self):
        known = "afmoe, apertus, arcee, axk1, bailing_hybrid, bamba, cohere, cohere2"
        for changes, words in (
            ({"architectures": ["BertModel"]}, "architectures = [BertModel]: this program trains AfmoeForCausalLM, ApertusForCausalLM"),
            ({"architectures": [], "model_type": "bert"}, "model_type = bert: this program trains " + known),
            ({"architectures": [], "model_type": None}, "add \"model_type\", which transformers needs as well, one of " + known),
            ({"model_type": "llama"}, "architectures = [Qwen2ForCausalLM] and model_type = llama are different models"),
            ({"quantization_config": {"quant_method": "hqq", "bits": 4}},
             "quantization_config: quant_method = \"hqq\": must have a quant_method that is read, one of bitsandbytes, gptq"),
        ):
            with self.subTest(words):
                self.write_config(**changes)
                self.expect_one_message(self.train(), 78, words)
        self.write_config(quantization_config=None)
        self.expect(self.train(), 0)

    def test_numbers_that_no_model_has(self):
        for changes, words in (
            ({"rms_norm_eps": 0}, "rms_norm_eps = 0: must be a number above 0"),
            ({"rope_theta": "big"}, "rope_theta = \"big\""),
            ({"head_dim": 15}, "head_dim = 15: must be even"),
            ({"hidden_size": 2}, "hidden_size = 2: is below num_attention_heads"),
        ):
            with self.subTest(words):
                self.write_config(**changes)
                self.expect_one_message(self.train(), 78, words)

    def test_sizes_that_no_machine_holds_are_refused_at_once(self):
        begin = time.monotonic()
        for changes, code, words in (
            ({"num_hidden_layers": 10**12}, 78, "num_hidden_layers = 1000000000000"),
            ({"hidden_size": 2**22, "vocab_size": 2**26}, 65, "has the shape"),
            ({"hidden_size": 2**22, "num_attention_heads": 2**22, "head_dim": 2**22}, 78, "wider than any model"),
            ({"num_hidden_layers": 4000}, 65, "is not in the model's files"),
        ):
            with self.subTest(words):
                self.write_config(**changes)
                self.expect_one_message(self.train(), code, words)
        self.assertLess(time.monotonic() - begin, 40)

    def test_weights_that_are_no_numbers(self):
        path = os.path.join(self.model, "model.safetensors")
        with open(path, "r+b") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            entry = header["model.layers.1.mlp.up_proj.weight"]
            kind = {"F32": "<f", "F16": "<e"}.get(entry["dtype"])
            file.seek(8 + length + entry["data_offsets"][1] - (4 if kind == "<f" else 2))
            file.write(struct.pack(kind, math.nan) if kind else b"\xc0\x7f")
        self.expect_one_message(self.train("--profile", "zero3", ranks=2), 65,
                                "model.layers.1.mlp.up_proj.weight holds NaN")

    def test_a_folder_that_cannot_be_looked_into(self):
        circle = self.output + "-circle"
        os.symlink(circle, circle)
        self.expect_one_message(self.train("--output_dir", circle), 74, "cannot be made")
        for name, code in (("n" * 5000, 66), (circle, 66), ("a\udcff", 78)):
            result = run("train", "--model_name_or_path", name, "--dataset_name", ROWS, "--output_dir", self.output)
            self.expect_one_message(result, code, "model_name_or_path")


class Init(TrainerTest):
    def test_generation_ends_where_the_config_says(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(MODEL, "config.json")) as file:
                config = json.load(file)
            wanted, model = os.path.join(folder, "wanted.json"), os.path.join(folder, "model")
            with open(wanted, "w") as file:
                json.dump({**config, "eos_token_id": [7, 9], "pad_token_id": None}, file)
            self.expect(run("init", "--config_json", wanted, "--output_dir", model), 0)
            with open(os.path.join(model, "generation_config.json")) as file:
                generation = json.load(file)
            self.assertEqual(generation["eos_token_id"], [7, 9])
            self.assertNotIn("pad_token_id", generation)

    def test_what_fails_leaves_no_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(MODEL, "config.json")) as file:
                config = json.load(file)
            wanted = os.path.join(folder, "wanted.json")
            with open(wanted, "w") as file:
                json.dump({**config, "vocab_size": 2**26, "hidden_size": 2**20}, file)
            model = os.path.join(folder, "model")
            self.expect_one_message(run("init", "--config_json", wanted, "--output_dir", model), 74, "there is room for")
            self.assertEqual(os.listdir(model), [])
            with open(wanted, "w") as file:
                json.dump(config, file)
            os.makedirs(os.path.join(model, "config.json", "in the way"))
            self.expect_one_message(run("init", "--config_json", wanted, "--output_dir", model), 74, "config.json")
            self.assertEqual(sorted(os.listdir(model)), ["config.json", "generation_config.json"])


if __name__ == "__main__":
    unittest.main()

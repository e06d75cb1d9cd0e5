#include <cmath>

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// All Gemmas have factors of norms that are learned as the difference from 1, GeGLU, and an
// embedding that is scaled by the root of its width.
static Defaults gemma_defaults(const char* activation_name, int64_t key_heads) {
    return {.head_dim = 256,
            .key_heads = key_heads,
            .norm = {.epsilon = 1e-6, .adds_one = true},
            .padding_token = 0,
            .tied = true,
            .activation = "gelu_pytorch_tanh",
            .activation_name = activation_name};
}

static ModelSpec read_gemma_fields(ConfigReader& config, const Defaults& defaults) {
    ModelSpec spec = read_plain_model(config, defaults);
    read_attention_bias(config, spec);
    refuse_flag(config, "use_bidirectional_attention");
    spec.embedding_multiplier = std::sqrt(static_cast<double>(spec.width));
    spec.rounds_embedding_multiplier = true;
    return spec;
}

static void read_scale(ConfigReader& config, ModelSpec& spec) {
    const double scale = 1 / std::sqrt(config.number_above_0("query_pre_attn_scalar", 256));
    for (BlockSpec& block : spec.blocks) block.attention().scores.scale = scale;
}

// Caps, and windows in every second block.
static ModelSpec read_capped(ConfigReader& config) {
    ModelSpec spec = read_gemma_fields(config, gemma_defaults("hidden_activation", 4));
    read_scale(config, spec);
    const double cap = read_cap(config, "attn_logit_softcapping", 50);
    for (BlockSpec& block : spec.blocks) block.attention().scores.cap = cap;
    spec.logits_cap = read_cap(config, "final_logit_softcapping", 30);
    const std::vector<bool> windows =
        read_layer_types(config, spec.blocks.size(), [](size_t block) { return block % 2 == 0; });
    set_windows(config, spec, windows, read_window(config, usual_window));
    return spec;
}

static ModelSpec read_gemma(ConfigReader& config) {
    ModelSpec spec = read_gemma_fields(config, gemma_defaults("hidden_act", 16));
    // An old name of the activation that the releases were trained with.
    if (config.word("hidden_act", "") == "gelu")
        for (BlockSpec& block : spec.blocks) block.mlp().activation = ops::Activation::gelu_tanh;
    return spec;
}

static ModelSpec read_gemma2(ConfigReader& config) {
    ModelSpec spec = read_capped(config);
    for (BlockSpec& block : spec.blocks) set_four_norms(block);
    return spec;
}

static ModelSpec read_vaultgemma(ConfigReader& config) {
    ModelSpec spec = read_capped(config);
    for (BlockSpec& block : spec.blocks)
        block.feed_forward().norms.before = "pre_feedforward_layernorm";
    return spec;
}

static ModelSpec read_gemma3(ConfigReader& config) {
    Defaults defaults = gemma_defaults("hidden_activation", 4);
    defaults.rope.theta = 1000000.0;
    defaults.has_ropes_by_layer = true;
    ModelSpec spec = read_gemma_fields(config, defaults);
    read_scale(config, spec);
    for (BlockSpec& block : spec.blocks) set_four_norms(block);
    if (config.has("attn_logit_softcapping"))
        config.complain(
            "attn_logit_softcapping: transformers does not use it in Gemma 3; set it "
            "to null");
    spec.logits_cap = read_cap(config, "final_logit_softcapping", 0);
    const RopeForm full = rope_form(spec, defaults);
    RopeForm sliding = full;
    sliding.theta = 10000.0;
    sliding.theta_name = "rope_local_base_freq";
    spec.ropes = read_ropes_by_layer(config, full, sliding);
    const std::vector<bool> windows = read_window_pattern(config, spec.blocks.size(), 6);
    set_windows(config, spec, windows, read_window(config, usual_window));
    set_ropes(spec, windows);
    for (BlockSpec& block : spec.blocks) block.attention().head_norm = HeadNormKind::each_head;
    return spec;
}

static ModelSpec read_wrapped_gemma3(ConfigReader& config) {
    ModelSpec spec = read_wrapped_model(config, {.text_type = "gemma3_text", .tied = true});
    if (spec.logits_cap > 0)
        config.complain(
            format_text("text_config: final_logit_softcapping = {}: transformers does not use it "
                        "in Gemma3ForConditionalGeneration; set it to null",
                        spec.logits_cap));
    return spec;
}

Family gemma() {
    return {{"GemmaForCausalLM",
             "gemma",
             read_gemma,
             {.score_class = "GemmaForSequenceClassification",
              .fields = {"attn_logit_softcapping", "final_logit_softcapping", "hidden_activation",
                         "query_pre_attn_scalar", "rope_local_base_freq",
                         "use_bidirectional_attention"},
              .peft = {.targets = {"q_proj", "v_proj"}}}},
            {"Gemma2ForCausalLM",
             "gemma2",
             read_gemma2,
             {.score_class = "Gemma2ForSequenceClassification",
              .peft = {.targets = {"q_proj", "v_proj"}}}},
            {"Gemma3ForCausalLM",
             "gemma3_text",
             read_gemma3,
             {.score_class = "Gemma3TextForSequenceClassification",
              .usual = {{"vocab_size", 262208},
                        {"hidden_size", 2304},
                        {"intermediate_size", 9216},
                        {"num_hidden_layers", 26},
                        {"num_attention_heads", 8},
                        {"num_key_value_heads", 4},
                        {"head_dim", 256},
                        {"max_position_embeddings", 131072}},
              .peft = {.targets = {"q_proj", "v_proj"}}}},
            {"VaultGemmaForCausalLM", "vaultgemma", read_vaultgemma},
            {"Gemma3ForConditionalGeneration", "gemma3", read_wrapped_gemma3}};
}

}  // namespace ringshard::model::architectures

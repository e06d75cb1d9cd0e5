#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Half of each head rotates, in pairs of neighbours; gate and up are one tensor.
static ModelSpec read_common(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.head_dim = 128,
                 .key_heads = 2,
                 .norm = {.epsilon = 1.5625e-7},
                 .padding_token = 151329,
                 .rope = {.may_be_partial = true, .rotated_part = 0.5, .is_interleaved = true}});
    read_attention_bias(config, spec, {.attention = true, .has_out = false});
    for (BlockSpec& block : spec.blocks) block.mlp().is_fused = true;
    return spec;
}

static ModelSpec read_glm(ConfigReader& config) { return read_common(config); }

// With norms behind both branches too.
static ModelSpec read_glm4(ConfigReader& config) {
    ModelSpec spec = read_common(config);
    for (BlockSpec& block : spec.blocks) {
        block.mixer().norms.behind = "post_self_attn_layernorm";
        block.feed_forward().norms.behind = "post_mlp_layernorm";
    }
    return spec;
}

Family glm4() {
    return {
        {"GlmForCausalLM", "glm", read_glm, {.score_class = "GlmForSequenceClassification"}},
        {"Glm4ForCausalLM", "glm4", read_glm4, {.score_class = "Glm4ForSequenceClassification"}}};
}

}  // namespace ringshard::model::architectures

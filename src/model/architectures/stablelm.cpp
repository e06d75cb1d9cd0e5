#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// LayerNorms around a gated MLP, and heads of which a quarter rotates.
static ModelSpec read_stablelm(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.key_heads = 32,
                                  .norm = {.epsilon = 1e-5, .is_centred = true, .has_bias = true},
                                  .norm_name = "layer_norm_eps",
                                  .rope = {.may_be_partial = true, .rotated_part = 0.25}});
    refuse_flag(config, "qk_layernorm");
    const bool has_bias = config.boolean("use_qkv_bias", false);
    const bool is_parallel = config.boolean("use_parallel_residual", false);
    for (BlockSpec& block : spec.blocks) {
        block.attention().has_bias = has_bias;
        block.feed_forward().is_parallel = is_parallel;
        if (is_parallel) block.feed_forward().norms = {};
    }
    return spec;
}

Family stablelm() {
    return {{"StableLmForCausalLM",
             "stablelm",
             read_stablelm,
             {.score_class = "StableLmForSequenceClassification",
              .fields = {"layer_norm_eps", "qk_layernorm", "use_parallel_residual", "use_qkv_bias"},
              .peft = {.targets = {"q_proj", "v_proj"}}}}};
}

}  // namespace ringshard::model::architectures

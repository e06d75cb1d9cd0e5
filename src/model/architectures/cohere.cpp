#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Attention and MLP read the same LayerNorm without bias; neighbours rotate as pairs.
static ModelSpec read_common(ConfigReader& config, double theta) {
    ModelSpec spec = read_plain_model(config, {.norm = {.epsilon = 1e-5, .is_centred = true},
                                               .norm_name = "layer_norm_eps",
                                               .padding_token = 0,
                                               .tied = true,
                                               .rope = {.theta = theta, .is_interleaved = true}});
    read_attention_bias(config, spec);
    spec.logits_multiplier = config.number_above_0("logit_scale", 0.0625);
    for (BlockSpec& block : spec.blocks) {
        block.feed_forward().is_parallel = true;
        block.feed_forward().norms = {};
    }
    return spec;
}

static ModelSpec read_cohere(ConfigReader& config) {
    ModelSpec spec = read_common(config, 500000.0);
    refuse_flag(config, "use_qk_norm");
    return spec;
}

// Blocks with a window rotate, and those that see everything do not.
static ModelSpec read_cohere2(ConfigReader& config) {
    ModelSpec spec = read_common(config, 10000.0);
    const std::vector<bool> windows = read_window_pattern(config, spec.blocks.size(), 4);
    set_windows(config, spec, windows, read_window(config, usual_window));
    rotate_windows_alone(spec);
    return spec;
}

Family cohere() {
    return {{"CohereForCausalLM",
             "cohere",
             read_cohere,
             {.fields = {"layer_norm_eps", "logit_scale", "use_qk_norm"}}},
            {"Cohere2ForCausalLM", "cohere2", read_cohere2}};
}

}  // namespace ringshard::model::architectures

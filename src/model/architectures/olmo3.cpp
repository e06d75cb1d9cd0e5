#include "common.hpp"

namespace ringshard::model {

// As OLMo 2, with windows in three blocks of four, and positions by the kind of the block.
ModelSpec read_olmo3(ConfigReader& config) {
    const Defaults defaults{.norm = {.epsilon = 1e-5},
                            .padding_token = 1,
                            .rope = {.theta = 500000.0},
                            .has_ropes_by_layer = true};
    ModelSpec spec = read_plain_model(config, defaults);
    read_biases(config, spec);
    const RopeForm full = rope_form(spec, defaults);
    RopeForm sliding = full;
    sliding.theta_name = "";  // rope_theta is of the others
    spec.ropes = read_ropes_by_layer(config, full, sliding);
    const std::vector<bool> windows = read_window_pattern(config, spec.blocks.size(), 4);
    set_windows(spec, windows, read_window(config, usual_window));
    set_ropes(spec, windows);
    for (BlockSpec& block : spec.blocks) {
        block.attention_norms = {.before = {}, .behind = "post_attention_layernorm"};
        block.attention.head_norm = HeadNormKind::all_heads;
        block.mlp_norms = {.before = {}, .behind = "post_feedforward_layernorm"};
    }
    return spec;
}

}  // namespace ringshard::model

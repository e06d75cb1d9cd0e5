#include "common.hpp"

namespace ringshard::model {

// Queries, keys and values are one tensor, gate and up another. Its long models scale positions in
// a way of their own.
ModelSpec read_phi3(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.norm_epsilon = 1e-5, .padding_token = 32000});
    if (spec.rope.kind != RopeKind::plain)
        config.complain(
            "rope_scaling: Phi3ForCausalLM scales positions by \"longrope\" alone, which is not "
            "served");
    const std::optional<int64_t> window = read_window(config, std::nullopt);
    for (BlockSpec& block : spec.blocks) {
        block.attention.is_fused = block.mlp.is_fused = true;
        block.attention.mask.window = window;
    }
    return spec;
}

}  // namespace ringshard::model

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Queries, keys and values are one tensor, gate and up another.
static ModelSpec read_phi3(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.norm = {.epsilon = 1e-5},
                                  .padding_token = 32000,
                                  .rope = {.may_be_partial = true, .original_positions = 4096}});
    const RopeKind kind = spec.ropes.front().kind;
    if (kind != RopeKind::plain && kind != RopeKind::longrope)
        config.complain("rope_scaling: Phi3ForCausalLM scales positions by \"longrope\" alone");
    set_window_of_all(spec, read_window(config, std::nullopt));
    for (BlockSpec& block : spec.blocks) block.attention().is_fused = block.mlp().is_fused = true;
    return spec;
}

Family phi3() {
    return {
        {"Phi3ForCausalLM", "phi3", read_phi3, {.score_class = "Phi3ForSequenceClassification"}}};
}

}  // namespace ringshard::model::architectures

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Plain blocks, of which those in attn_layer_indices attend and all others have a state.
static ModelSpec read_bamba(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.key_heads = 8,
                                  .norm = {.epsilon = 1e-5},
                                  .padding_token = 0,
                                  .rope = {.may_be_partial = true, .rotated_part = 0.5}});
    if (config.has("partial_rotary_factor") && config.part("partial_rotary_factor") != 0.5)
        config.complain(format_text(
            "partial_rotary_factor = {}: transformers reads it in rope_parameters alone, and else "
            "takes 0.5; move it there, or remove it",
            shown(config.part("partial_rotary_factor").dump())));
    read_biases(config, spec);
    if (config.part("z_loss_coefficient").is_number() && config.part("z_loss_coefficient") != 0)
        config.complain(format_text(
            "z_loss_coefficient = {}: a loss of the logits' size is not served; it must be 0",
            shown(config.part("z_loss_coefficient").dump())));
    const MambaSpec mamba = read_mamba(config, spec);
    spec.names.final_norm = "model.final_layernorm";
    for (BlockSpec& block : spec.blocks) {
        block.feed_forward().norms.before = "pre_ff_layernorm";
        block.mlp().gate = "feed_forward.gate_proj";
        block.mlp().up = "feed_forward.up_proj";
        block.mlp().down = "feed_forward.down_proj";
    }
    const std::vector<bool> has_state =
        read_unlisted_layers(config, "attn_layer_indices", spec.blocks.size());
    for (size_t block = 0; block < has_state.size(); ++block)
        if (has_state[block]) spec.blocks[block].mixer().part = mamba;
    return spec;
}

Family bamba() {
    return {{"BambaForCausalLM",
             "bamba",
             read_bamba,
             {.fields = {"attn_layer_indices", "z_loss_coefficient"}}}};
}

}  // namespace ringshard::model::architectures

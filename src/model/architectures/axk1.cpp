#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Latents, and experts in all blocks but the first ones, with a norm behind them.
static ModelSpec read_axk1(ConfigReader& config) {
    const bool is_interleaved = config.boolean("rope_interleave", true);
    ModelSpec spec =
        read_latent_model(config, {.model = {.rope = {.is_interleaved = is_interleaved}}});
    const ExpertsSpec experts = read_grouped_experts(
        config, spec,
        {.count = 192, .per_token = 8, .scaling = 2.5, .groups = 8, .chosen_groups = 4});
    if (config.has("moe_layer_freq") && config.part("moe_layer_freq") != 1 &&
        !config.has("mlp_layer_types"))
        config.complain(format_text("moe_layer_freq = {}: is not served; it must be 1",
                                    shown(config.part("moe_layer_freq").dump())));
    set_experts_behind_dense(spec, experts, read_first_sparse(config, spec.blocks.size()));
    for (BlockSpec& block : spec.blocks)
        if (block.experts()) block.feed_forward().norms.behind = "post_mlp_layernorm";
    return spec;
}

Family axk1() {
    return {{"AXK1ForCausalLM",
             "axk1",
             read_axk1,
             {.score_class = "AXK1ForSequenceClassification", .fields = {"rope_interleave"}}}};
}

}  // namespace ringshard::model::architectures

#include <cmath>

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Routers of sigmoids with corrections, and an MLP beside the experts.
static ExpertsSpec read_afmoe_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 64,
                                        .per_token = 6,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = "num_experts"});
    experts.shared =
        shared_experts(experts, config.whole_number_or("num_shared_experts", most_blocks, 2));
    experts.routing.is_sigmoid = true;
    experts.routing.normalises = true;
    experts.routing.added_to_sum = 1e-20;
    experts.routing.scaling = config.number_above_0("route_scale", 1.0);
    experts.router = "mlp.router.gate";
    experts.router_is_layer = true;
    experts.correction = "mlp.expert_bias";
    return experts;
}

// Four norms; every head is normed by itself and what it has seen is gated; blocks with a window
// rotate, and those that see everything do not. All blocks but the first ones have experts.
static ModelSpec read_afmoe(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.head_dim = 128, .norm = {.epsilon = 1e-5}});
    for (const char* const bias : {"attention_bias", "mlp_bias"}) refuse_flag(config, bias);
    if (config.boolean("mup_enabled", false))
        spec.embedding_multiplier = std::sqrt(static_cast<double>(spec.width));
    for (BlockSpec& block : spec.blocks) {
        block.attention().head_norm = HeadNormKind::each_head;
        block.attention().gates = HeadGates::sigmoid;
        block.mixer().norms.behind = "post_attention_layernorm";
        block.feed_forward().norms = {.before = "pre_mlp_layernorm",
                                      .behind = "post_mlp_layernorm"};
    }
    const ExpertsSpec experts = read_afmoe_experts(config, spec);
    set_experts_behind_dense(spec, experts, read_first_dense(config, 1, "num_dense_layers"));
    const int64_t every = config.whole_number_or("global_attn_every_n_layers", most_blocks, 4);
    const std::vector<bool> windows = read_layer_types(
        config, spec.blocks.size(),
        [every](size_t block) { return (block + 1) % static_cast<size_t>(every) != 0; });
    set_windows(config, spec, windows, read_window(config, 1024));
    rotate_windows_alone(spec);
    return spec;
}

Family afmoe() {
    return {{"AfmoeForCausalLM",
             "afmoe",
             read_afmoe,
             {.fields = {"global_attn_every_n_layers", "mup_enabled", "num_dense_layers",
                         "num_shared_experts", "route_scale"},
              .peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures

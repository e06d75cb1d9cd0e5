#include "common.hpp"

namespace ringshard::model {

// Experts in all blocks but the first ones, with routers of sigmoids and corrections.
ModelSpec read_lfm2_moe(ConfigReader& config) {
    ModelSpec spec = read_short_convolutions(config, "intermediate_size");
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 32,
                                        .per_token = 4,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = "num_experts"});
    experts.routing = {.is_sigmoid = true,
                       .normalises = config.boolean("norm_topk_prob", true),
                       .added_to_sum = 1e-6,
                       .scaling = config.number_above_0("routed_scaling_factor", 1)};
    experts.router = "feed_forward.gate";
    experts.experts = "feed_forward.experts";
    experts.gate = "w1";
    experts.up = "w3";
    experts.down = "w2";
    if (config.boolean("use_expert_bias", true)) experts.correction = "feed_forward.expert_bias";
    set_experts_behind_dense(spec, experts, read_first_dense(config, 2, "num_dense_layers"));
    return spec;
}

}  // namespace ringshard::model

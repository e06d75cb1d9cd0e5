#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Every head is normed by itself; experts beside an MLP in all blocks but the first ones, with
// routers of sigmoids and corrections. Files may hold a block behind the last one.
static ModelSpec read_hy_v3(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.head_dim = 128,
                                               .key_heads = 8,
                                               .norm = {.epsilon = 1e-5},
                                               .rope = {.theta = 11158840.0},
                                               .initializer_range = 0.006});
    read_attention_bias(config, spec);
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 192,
                                        .per_token = 8,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = "num_experts"});
    experts.shared =
        shared_experts(experts, config.whole_number_or("num_shared_experts", most_blocks, 1));
    experts.routes_in_fp32 = true;
    experts.routing.is_sigmoid = true;
    experts.routing.normalises = true;
    experts.routing.added_to_sum = 1e-20;
    experts.routing.scaling = config.number_above_0("router_scaling_factor", 2.826);
    experts.router = "mlp.router.gate";
    experts.correction = "mlp.expert_bias";
    experts.shared->gate = "mlp.shared_mlp.gate_proj";
    experts.shared->up = "mlp.shared_mlp.up_proj";
    experts.shared->down = "mlp.shared_mlp.down_proj";
    refuse_unread(config, "first_k_dense_replace", 1, "mlp_layer_types");
    set_experts_behind_dense(spec, experts, read_first_sparse(config, spec.blocks.size()));
    for (BlockSpec& block : spec.blocks) block.attention().head_norm = HeadNormKind::each_head;
    spec.ignores_further_blocks = true;
    return spec;
}

Family hy_v3() {
    return {
        {"HYV3ForCausalLM",
         "hy_v3",
         read_hy_v3,
         {.fields = {"enable_moe_fp32_combine", "num_shared_experts", "router_scaling_factor"}}}};
}

}  // namespace ringshard::model::architectures

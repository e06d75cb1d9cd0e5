#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// As Qwen3 with experts, with windows and positions by layer. Files may hold tensors of "mtp",
// which predict further tokens.
static ModelSpec read_mellum(ConfigReader& config) {
    const Defaults defaults{
        .head_dim = 128, .key_heads = 4, .rope = {.theta = 500000.0}, .has_ropes_by_layer = true};
    ModelSpec spec = read_plain_model(config, defaults);
    read_layers(config, spec, defaults, {.window = 1024});
    read_attention_bias(config, spec);
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 64,
                                        .per_token = 8,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = 0.001});
    experts.routing.normalises = config.boolean("norm_topk_prob", true);
    set_experts_behind_dense(
        spec, experts,
        config.has("mlp_layer_types") ? read_first_sparse(config, spec.blocks.size()) : 0);
    for (BlockSpec& block : spec.blocks) block.attention().head_norm = HeadNormKind::each_head;
    spec.ignores_further_blocks = true;
    return spec;
}

Family mellum() {
    return {{"MellumForCausalLM", "mellum", read_mellum, {.peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures

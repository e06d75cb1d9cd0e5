#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Experts beside an MLP in all blocks but the first ones. Files may hold blocks behind the last
// one, which predict further tokens.
static ModelSpec read_glm4_moe(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.key_heads = 8,
                 .norm = {.epsilon = 1e-5},
                 .rope = {.may_be_partial = true, .rotates_pairs = true, .rotated_part = 0.5}});
    read_attention_bias(config, spec, {.has_out = false});
    const bool norms_heads = config.boolean("use_qk_norm", false);
    const ExpertsSpec experts = read_grouped_experts(config, spec, {.count = 128, .per_token = 8});
    set_experts_behind_dense(spec, experts, read_first_dense(config, 1));
    for (BlockSpec& block : spec.blocks)
        if (norms_heads) block.attention().head_norm = HeadNormKind::each_head;
    spec.ignores_further_blocks = true;
    return spec;
}

// As GLM-4.5, without norms of heads and without an MLP in the first blocks.
static ModelSpec read_solar_open(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.head_dim = 128,
                                               .key_heads = 8,
                                               .norm = {.epsilon = 1e-5},
                                               .intermediate_name = "moe_intermediate_size",
                                               .rope = {.theta = 1e6}});
    read_attention_bias(config, spec, {.has_out = false});
    const ExpertsSpec experts = read_grouped_experts(config, spec, {.count = 128, .per_token = 8});
    set_experts_behind_dense(spec, experts, 0);
    return spec;
}

Family glm4_moe() {
    return {{"Glm4MoeForCausalLM",
             "glm4_moe",
             read_glm4_moe,
             {.fields = {"use_qk_norm"}, .peft = {.converts_experts = true}}},
            {"SolarOpenForCausalLM",
             "solar_open",
             read_solar_open,
             {.peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures

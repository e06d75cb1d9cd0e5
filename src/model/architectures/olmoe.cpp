#include "common.hpp"

namespace ringshard::model {

// Experts in place of the MLP, and queries and keys normed over all heads.
ModelSpec read_olmoe(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.norm = {.epsilon = 1e-5}, .padding_token = 1});
    read_attention_bias(config, spec);
    if (config.has("clip_qkv"))
        config.complain(format_text("clip_qkv = {}: is not served; must be null",
                                    config.part("clip_qkv").dump()));
    ExpertsSpec experts = read_experts(
        config, spec,
        {.count = 64, .per_token = 8, .intermediate_name = "intermediate_size", .aux_loss = 0.01});
    experts.routing.normalises = config.boolean("norm_topk_prob", false);
    for (BlockSpec& block : spec.blocks) {
        block.attention.head_norm = HeadNormKind::all_heads;
        block.experts = experts;
    }
    return spec;
}

}  // namespace ringshard::model

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Experts in place of the MLP, and queries and keys normed over all heads.
static void read_olmo_experts(ConfigReader& config, ModelSpec& spec,
                              const ExpertDefaults& defaults) {
    read_attention_bias(config, spec);
    ExpertsSpec experts = read_experts(config, spec, defaults);
    experts.routing.normalises = config.boolean("norm_topk_prob", false);
    for (BlockSpec& block : spec.blocks) {
        block.attention().head_norm = HeadNormKind::all_heads;
        block.feed_forward().part = experts;
    }
}

static ModelSpec read_olmoe(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.norm = {.epsilon = 1e-5}, .padding_token = 1});
    if (config.has("clip_qkv"))
        config.complain(format_text("clip_qkv = {}: is not served; must be null",
                                    shown(config.part("clip_qkv").dump())));
    read_olmo_experts(
        config, spec,
        {.count = 64, .per_token = 8, .intermediate_name = "intermediate_size", .aux_loss = 0.01});
    return spec;
}

// Norms stand behind the branches of a block.
static ModelSpec read_flex_olmo(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.padding_token = 100277, .rope = {.theta = 500000.0}});
    for (BlockSpec& block : spec.blocks) set_norms_behind(block);
    read_olmo_experts(
        config, spec,
        {.count = 7, .per_token = 5, .intermediate_name = "intermediate_size", .aux_loss = 0.01});
    return spec;
}

Family olmoe() {
    return {
        {"OlmoeForCausalLM",
         "olmoe",
         read_olmoe,
         {.fields = {"clip_qkv"}, .peft = {.converts_experts = true}}},
        {"FlexOlmoForCausalLM", "flex_olmo", read_flex_olmo, {.peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures

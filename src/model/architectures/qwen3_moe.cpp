#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Qwen3 with experts in place of the MLP, in some blocks or in all.
static ModelSpec read_qwen3_moe(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 4});
    read_attention_bias(config, spec);
    if (config.boolean("use_sliding_window", false)) {
        const std::optional<int64_t> window = read_window(config, usual_window);
        if (!window) refuse_window_without_length(config);
        set_window_of_all(spec, window);
    }
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 128,
                                        .per_token = 8,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = 0.001});
    experts.routing.normalises = config.boolean("norm_topk_prob", false);
    const std::vector<bool> dense = read_dense_blocks(config, spec.blocks.size());
    for (size_t block = 0; block < dense.size(); ++block) {
        spec.blocks[block].attention().head_norm = HeadNormKind::each_head;
        if (!dense[block]) spec.blocks[block].feed_forward().part = experts;
    }
    return spec;
}

Family qwen3_moe() {
    return {
        {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen3_moe, {.peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures

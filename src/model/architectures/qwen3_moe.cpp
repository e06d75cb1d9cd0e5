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

// The same without windows. Releases have the transposes of the matrices of experts; transformers
// reads these and, where it has written them, the matrices, which it tells apart by their sizes.
static ModelSpec read_qwen3_vl_moe_text(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 16});
    read_attention_bias(config, spec);
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 60,
                                        .per_token = 4,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = 0.001});
    experts.routing.normalises = true;
    experts.tensors = ExpertTensors::transposed;
    experts.up = "gate_up_proj";
    const int64_t inner = experts.intermediate;
    if (inner == spec.width || 2 * inner == spec.width)
        config.complain(format_text(
            "moe_intermediate_size = {}: must be neither hidden_size = {} nor half of it, since "
            "files may have the matrices of experts or their transposes",
            inner, spec.width));
    const std::vector<bool> dense = read_dense_blocks(config, spec.blocks.size());
    for (size_t block = 0; block < dense.size(); ++block) {
        spec.blocks[block].attention().head_norm = HeadNormKind::each_head;
        if (!dense[block]) spec.blocks[block].feed_forward().part = experts;
    }
    return spec;
}

static ModelSpec read_qwen3_vl_moe(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "qwen3_vl_moe_text", .tied = false});
}

Family qwen3_moe() {
    return {
        {"Qwen3MoeForCausalLM",
         "qwen3_moe",
         read_qwen3_moe,
         {.score_class = "Qwen3MoeForSequenceClassification", .peft = {.converts_experts = true}}},
        {nullptr,
         "qwen3_vl_moe_text",
         read_qwen3_vl_moe_text,
         {.usual = {{"rope_theta", 500000.0}}}},
        {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", read_qwen3_vl_moe}};
}

}  // namespace ringshard::model::architectures

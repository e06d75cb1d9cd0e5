#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Queries, keys and values have biases; some blocks may look through a window.
static ModelSpec read_qwen2(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 32});
    for (BlockSpec& block : spec.blocks) block.attention().has_bias = true;
    read_windows_of_layers(config, spec);
    return spec;
}

// With experts beside an MLP in some blocks or in all.
static ModelSpec read_qwen2_moe(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 16});
    const bool has_bias = config.boolean("qkv_bias", true);
    for (BlockSpec& block : spec.blocks) block.attention().has_bias = has_bias;
    // Other blocks than those of the dense models have windows; and transformers writes 0 where
    // use_sliding_window is false.
    if (config.part("sliding_window") == 0 && !config.boolean("use_sliding_window", false))
        set_windows(config, spec,
                    read_layer_types(config, spec.blocks.size(), [](size_t) { return false; }),
                    std::nullopt);
    else
        read_windows_in_use(config, spec, read_window(config, usual_window),
                            [first = read_max_window_layers(config)](size_t block) {
                                return block % 2 == 0 && block < first;
                            });
    if (config.part("num_experts") == 0) return spec;
    ExpertsSpec experts =
        read_gated_experts(config, spec, {.count = 60, .per_token = 4, .shared = 5632});
    experts.routing.normalises = config.boolean("norm_topk_prob", false);
    const std::vector<bool> dense = read_dense_blocks(config, spec.blocks.size());
    for (size_t block = 0; block < dense.size(); ++block)
        if (!dense[block]) spec.blocks[block].feed_forward().part = experts;
    return spec;
}

static ModelSpec read_qwen2_5_vl(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "qwen2_5_vl_text",
                                       .tied = false,
                                       .may_tie_inside = true,
                                       .may_be_flat = true});
}

Family qwen2() {
    return {{"Qwen2ForCausalLM",
             "qwen2",
             read_qwen2,
             {.score_class = "Qwen2ForSequenceClassification",
              .fields = {"qkv_bias"},
              .peft = {.targets = {"q_proj", "v_proj"}}}},
            {"Qwen2MoeForCausalLM",
             "qwen2_moe",
             read_qwen2_moe,
             {.score_class = "Qwen2MoeForSequenceClassification"}},
            {nullptr,
             "qwen2_5_vl_text",
             read_qwen2,
             {.usual = {{"num_key_value_heads", 8},
                        {"rms_norm_eps", 1e-5},
                        {"rope_theta", 1000000.0},
                        {"max_window_layers", 80}}}},
            {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", read_qwen2_5_vl}};
}

}  // namespace ringshard::model::architectures

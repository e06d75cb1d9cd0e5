#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Every query and key head is normed by itself.
static ModelSpec read_qwen3_vl_text(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.head_dim = 128, .key_heads = 32});
    for (BlockSpec& block : spec.blocks) block.attention().head_norm = HeadNormKind::each_head;
    read_attention_bias(config, spec);
    return spec;
}

// Some blocks may look through a window.
static ModelSpec read_qwen3(ConfigReader& config) {
    ModelSpec spec = read_qwen3_vl_text(config);
    read_windows_of_layers(config, spec);
    return spec;
}

static ModelSpec read_qwen3_vl(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "qwen3_vl_text", .tied = false});
}

Family qwen3() {
    return {{"Qwen3ForCausalLM",
             "qwen3",
             read_qwen3,
             {.score_class = "Qwen3ForSequenceClassification",
              .peft = {.targets = {"q_proj", "v_proj"}}}},
            {nullptr, "qwen3_vl_text", read_qwen3_vl_text, {.usual = {{"rope_theta", 500000.0}}}},
            {"Qwen3VLForConditionalGeneration", "qwen3_vl", read_qwen3_vl}};
}

}  // namespace ringshard::model::architectures

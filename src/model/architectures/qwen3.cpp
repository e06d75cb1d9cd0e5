#include "../reading/common.hpp"
#include "../reading/wrapped.hpp"

namespace ringshard::model::architectures {

namespace {

// Every query and key head is normed by itself.
ModelSpec read_qwen3_vl_text(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.head_dim = 128, .key_heads = 32});
    for (BlockSpec& block : spec.blocks) block.attention().head_norm = HeadNormKind::each_head;
    read_attention_bias(config, spec);
    return spec;
}

// Some blocks may look through a window.
ModelSpec read_qwen3(ConfigReader& config) {
    ModelSpec spec = read_qwen3_vl_text(config);
    read_windows_of_layers(config, spec);
    return spec;
}

ModelSpec read_qwen3_vl(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "qwen3_vl_text", .tied = false});
}

}  // namespace

Family qwen3() {
    return {{.name = "Qwen3ForCausalLM",
             .model_type = "qwen3",
             .read = read_qwen3,
             .peft = {.targets = {"q_proj", "v_proj"}}},
            {.name = nullptr,
             .model_type = "qwen3_vl_text",
             .read = read_qwen3_vl_text,
             .usual = {{"rope_theta", 500000.0}}},
            {.name = "Qwen3VLForConditionalGeneration",
             .model_type = "qwen3_vl",
             .read = read_qwen3_vl}};
}

}  // namespace ringshard::model::architectures

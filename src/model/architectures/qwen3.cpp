#include "common.hpp"

namespace ringshard::model {

// Every query and key head is normed by itself; some blocks may look through a window.
ModelSpec read_qwen3(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.head_dim = 128, .key_heads = 32});
    for (BlockSpec& block : spec.blocks) block.attention().head_norm = HeadNormKind::each_head;
    read_attention_bias(config, spec);
    read_windows_of_layers(config, spec);
    return spec;
}

}  // namespace ringshard::model

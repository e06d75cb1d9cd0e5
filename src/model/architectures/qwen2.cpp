#include "common.hpp"

namespace ringshard::model {

// Queries, keys and values have biases; some blocks may look through a window.
ModelSpec read_qwen2(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 32});
    for (BlockSpec& block : spec.blocks) block.attention.has_bias = true;
    read_windows_of_layers(config, spec);
    return spec;
}

}  // namespace ringshard::model

#include "common.hpp"

namespace ringshard::model {

// The plain model, whose blocks all look through one window unless sliding_window is null.
ModelSpec read_mistral(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 8});
    const std::optional<int64_t> window = read_window(config, usual_window);
    for (BlockSpec& block : spec.blocks) block.attention.mask.window = window;
    return spec;
}

}  // namespace ringshard::model

#include "windows.hpp"

namespace ringshard::model {

// Norms stand behind the branches, every head is normed by itself, and in models with windows the
// blocks that see everything do not rotate.
ModelSpec read_exaone4(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 32, .norm = {.epsilon = 1e-5}});
    for (BlockSpec& block : spec.blocks) {
        set_norms_behind(block);
        block.attention.head_norm = HeadNormKind::each_head;
    }
    const std::optional<int64_t> window = read_window(config, usual_window);
    const std::vector<bool> windows =
        window ? read_window_pattern(config, spec.blocks.size(), 4)
               : read_layer_types(config, spec.blocks.size(), [](size_t) { return false; });
    set_windows(config, spec, windows, window);
    if (window) rotate_windows_alone(spec);
    return spec;
}

}  // namespace ringshard::model

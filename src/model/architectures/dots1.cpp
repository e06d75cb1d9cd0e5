#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Every query and key head is normed by itself; the last blocks may look through a window.
static ModelSpec read_dots1(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 32});
    read_attention_bias(config, spec);
    const ExpertsSpec experts =
        read_grouped_experts(config, spec, {.shared = 0, .normalises = false});
    set_experts_behind_dense(spec, experts, read_first_dense(config, 0));
    for (BlockSpec& block : spec.blocks) block.attention().head_norm = HeadNormKind::each_head;
    const std::optional<int64_t> window = read_window(config, usual_window);
    const int64_t first = config.part("max_window_layers") == 0
                              ? 0
                              : config.whole_number_or("max_window_layers", most_blocks, 62);
    const std::vector<bool> windows = read_layer_types(
        config, spec.blocks.size(),
        [&](size_t block) { return window && block >= static_cast<size_t>(first); });
    set_windows(config, spec, windows, window);
    return spec;
}

Family dots1() {
    return {{"Dots1ForCausalLM", "dots1", read_dots1, {.peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures

#include <algorithm>

#include "common.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Returns whether each block is of the kind that the list of a field calls `special`, or else of
// the other.
std::vector<bool> read_kinds(ConfigReader& config, const char* field, size_t num_blocks,
                             const std::string& special) {
    const json kinds = config.part(field);
    std::vector<bool> are_special;
    for (json kind : kinds.is_array() ? kinds : json::array()) {
        // Older names, which transformers takes too.
        if (kind == "attention") kind = "full_attention";
        if (kind == "mamba") kind = "linear_attention";
        are_special.push_back(kind == special);
        if (kind != special && kind != "full_attention")
            config.complain(concat(field, ": ", kind.dump(), ": must be \"full_attention\" or \"",
                                   special, "\""));
    }
    if (are_special.size() != num_blocks)
        config.complain(
            concat(field, " = ", kinds.dump(),
                   ": must be a list with one entry for each of num_hidden_layers = ", num_blocks));
    are_special.resize(num_blocks, false);
    return are_special;
}

}  // namespace

std::vector<bool> read_layer_types(ConfigReader& config, size_t num_blocks,
                                   const std::function<bool(size_t)>& usual) {
    if (config.has("layer_types"))
        return read_kinds(config, "layer_types", num_blocks, "sliding_attention");
    std::vector<bool> windows(num_blocks);
    for (size_t block = 0; block < num_blocks; ++block) windows[block] = usual(block);
    return windows;
}

std::vector<bool> read_state_layers(ConfigReader& config, const char* field, size_t num_blocks) {
    return read_kinds(config, field, num_blocks, "linear_attention");
}

std::vector<bool> read_window_pattern(ConfigReader& config, size_t num_blocks, int64_t usual) {
    const auto every =
        static_cast<size_t>(config.whole_number_or("sliding_window_pattern", most_blocks, usual));
    return read_layer_types(config, num_blocks,
                            [every](size_t block) { return (block + 1) % every != 0; });
}

void set_windows(ModelSpec& spec, const std::vector<bool>& windows, std::optional<int64_t> window) {
    for (size_t block = 0; block < windows.size(); ++block)
        if (windows[block]) spec.blocks[block].attention.mask.window = window;
}

void set_window_of_all(ModelSpec& spec, std::optional<int64_t> window) {
    for (BlockSpec& block : spec.blocks) block.attention.mask.window = window;
}

void rotate_windows_alone(ModelSpec& spec) {
    for (BlockSpec& block : spec.blocks)
        if (!block.attention.mask.window) block.attention.rope.reset();
}

void set_ropes(ModelSpec& spec, const std::vector<bool>& windows) {
    for (size_t block = 0; block < windows.size(); ++block)
        spec.blocks[block].attention.rope = windows[block] ? 1 : 0;
}

void read_windows_of_layers(ConfigReader& config, ModelSpec& spec) {
    if (!config.boolean("use_sliding_window", false)) return;
    // The first max_window_layers see everything.
    const int64_t first = config.part("max_window_layers") == 0
                              ? 0
                              : config.whole_number_or("max_window_layers", most_blocks, 28);
    const auto usual = [first](size_t block) { return block >= static_cast<size_t>(first); };
    const std::vector<bool> windows = read_layer_types(config, spec.blocks.size(), usual);
    if (std::find(windows.begin(), windows.end(), true) == windows.end()) return;
    set_windows(spec, windows, read_window(config, usual_window));
}

}  // namespace ringshard::model

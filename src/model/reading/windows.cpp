#include <algorithm>

#include "common.hpp"
#include "ringshard/base/shown.hpp"

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
            config.complain(format_text("{}: {}: must be \"full_attention\" or \"{}\"", field,
                                        shown(kind.dump()), special));
    }
    if (are_special.size() != num_blocks)
        config.complain(
            format_text("{} = {}: must be a list with one entry for each of num_hidden_layers = {}",
                        field, shown(kinds.dump()), num_blocks));
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

std::vector<bool> read_state_layers(ConfigReader& config, const char* field, size_t num_blocks,
                                    const std::string& state) {
    return read_kinds(config, field, num_blocks, state);
}

std::vector<bool> read_unlisted_layers(ConfigReader& config, const char* field, size_t num_blocks) {
    const json listed = config.part(field);
    if (!listed.is_null() && !listed.is_array())
        config.complain(format_text("{} = {}: must be a list", field, shown(listed.dump())));
    std::vector<bool> have_state(num_blocks, true);
    for (const json& block : listed.is_array() ? listed : json::array()) {
        if (block.is_number_unsigned() && block < num_blocks)
            have_state[block.get<size_t>()] = false;
        else
            config.complain(
                format_text("{}: {}: must be the number of a layer, below num_hidden_layers = {}",
                            field, shown(block.dump()), num_blocks));
    }
    return have_state;
}

namespace {

char letter_of(ConfigReader& config, const char* field, const json& name) {
    if (name == "linear_attention" || name == "mamba") return 'M';
    if (name == "full_attention" || name == "attention") return '*';
    if (name == "mlp") return '-';
    if (name != "moe")
        config.complain(
            format_text("{}: {}: must be \"linear_attention\" (Mamba2), "
                        "\"full_attention\", \"mlp\" or \"moe\"",
                        field, shown(name.dump())));
    return 'E';
}

}  // namespace

std::string read_layer_letters(ConfigReader& config) {
    const char* const field = config.has("layers_block_type") ? "layers_block_type" : "layer_types";
    std::string letters = config.word("hybrid_override_pattern", "ME*-");
    if (const json names = config.part(field); names.is_array() && !names.empty()) {
        letters.clear();
        for (const json& name : names) letters.push_back(letter_of(config, field, name));
    }
    const size_t unknown = letters.find_first_not_of("M*-E");
    if (letters.empty() || unknown != std::string::npos)
        config.complain(format_text(
            "hybrid_override_pattern = \"{}\": must have a letter for each layer: M (Mamba2), * "
            "(attention), - (MLP) or E (experts){}",
            shown(letters),
            letters.empty() ? "" : format_text("; {} is none of these", letters[unknown])));
    if (const json number = config.part("num_hidden_layers");
        !number.is_null() && number != letters.size())
        config.complain(format_text("num_hidden_layers = {}: must be the number of layers, {}",
                                    shown(number.dump()), letters.size()));
    return letters.empty() ? "*" : letters;
}

std::vector<bool> read_window_pattern(ConfigReader& config, size_t num_blocks, int64_t usual) {
    // Releases of EXAONE 4 have a word here, beside layer_types.
    const auto every = config.has("layer_types")
                           ? size_t{1}
                           : static_cast<size_t>(config.whole_number_or("sliding_window_pattern",
                                                                        most_blocks, usual));
    return read_layer_types(config, num_blocks,
                            [every](size_t block) { return (block + 1) % every != 0; });
}

void set_windows(ConfigReader& config, ModelSpec& spec, const std::vector<bool>& windows,
                 std::optional<int64_t> window) {
    if (!window && std::ranges::count(windows, true) > 0)
        config.complain(
            "sliding_window = null: layers with \"sliding_attention\" (layer_types) need the "
            "number of tokens that they see");
    for (size_t block = 0; block < windows.size(); ++block)
        if (windows[block]) spec.blocks[block].attention().mask.window = window;
}

void set_window_of_all(ModelSpec& spec, std::optional<int64_t> window) {
    for (BlockSpec& block : spec.blocks) block.attention().mask.window = window;
}

void rotate_windows_alone(ModelSpec& spec) {
    for (BlockSpec& block : spec.blocks)
        if (!block.attention().mask.window) block.attention().rope.reset();
}

void set_ropes(ModelSpec& spec, const std::vector<bool>& windows) {
    for (size_t block = 0; block < windows.size(); ++block)
        spec.blocks[block].attention().rope = windows[block] ? 1 : 0;
}

void read_layers(ConfigReader& config, ModelSpec& spec, const Defaults& defaults,
                 const LayerDefaults& of_layers) {
    RopeForm full = rope_form(spec, defaults);
    RopeForm sliding = full;
    sliding.theta = 10000.0;
    if (config.has("rope_scaling"))
        config.complain("rope_scaling: is not read here; give rope_parameters");
    const json positions = config.part("rope_parameters");
    if (positions.is_null()) full.rotated_part = of_layers.rotated_part;
    ConfigReader ropes(config.file(), {{"rope_parameters", positions}});
    spec.ropes = read_ropes_by_layer(ropes, full, sliding);
    config.complain(ropes);
    const std::vector<bool> windows =
        read_layer_types(config, spec.blocks.size(), of_layers.has_window);
    set_windows(config, spec, windows, read_window(config, of_layers.window));
    set_ropes(spec, windows);
}

void refuse_window_without_length(ConfigReader& config) {
    config.complain(
        "use_sliding_window = true: needs sliding_window, the number of tokens that a token sees");
}

void read_windows_in_use(ConfigReader& config, ModelSpec& spec, std::optional<int64_t> window,
                         const std::function<bool(size_t)>& usual) {
    const bool are_used = config.boolean("use_sliding_window", false);
    const std::vector<bool> windows = read_layer_types(
        config, spec.blocks.size(), [&](size_t block) { return are_used && usual(block); });
    if (are_used && !window)
        refuse_window_without_length(config);
    else if (are_used)
        set_windows(config, spec, windows, window);
    else if (std::ranges::count(windows, true) > 0)
        config.complain(
            "layer_types: has \"sliding_attention\", which needs use_sliding_window = "
            "true and sliding_window");
}

size_t read_max_window_layers(ConfigReader& config) {
    if (config.part("max_window_layers") == 0) return 0;
    return static_cast<size_t>(config.whole_number_or("max_window_layers", most_blocks, 28));
}

void read_windows_of_layers(ConfigReader& config, ModelSpec& spec) {
    // The first max_window_layers see everything.
    read_windows_in_use(
        config, spec, read_window(config, usual_window),
        [first = read_max_window_layers(config)](size_t block) { return block >= first; });
}

}  // namespace ringshard::model

#include <algorithm>

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Returns whether the heads of each block rotate: all but every no_rope_layer_interval-th, or as
// no_rope_layers says with 1 and 0.
static std::vector<bool> read_rotating_layers(ConfigReader& config, size_t num_blocks) {
    std::vector<bool> rotates(num_blocks, true);
    if (!config.has("no_rope_layers")) {
        const int64_t every = config.whole_number_or("no_rope_layer_interval", 4096, 4);
        for (size_t block = 0; block < num_blocks; ++block)
            rotates[block] = (block + 1) % static_cast<size_t>(every) != 0;
        return rotates;
    }
    const auto given = config.part("no_rope_layers");
    const auto is_flag = [](const auto& layer) { return layer == 0 || layer == 1; };
    if (!given.is_array() || given.size() < num_blocks ||
        !std::all_of(given.begin(), given.end(), is_flag)) {
        config.complain(format_text(
            "no_rope_layers = {}: must be a list with 1 or 0 for each of num_hidden_layers = {}",
            shown(given.dump()), num_blocks));
        return rotates;
    }
    for (size_t block = 0; block < num_blocks; ++block) rotates[block] = given[block] == 1;
    return rotates;
}

// The heads of some blocks do not rotate; those blocks alone may look through a window.
static ModelSpec read_smollm3(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config,
        {.key_heads = 4, .padding_token = 128004, .tied = true, .rope = {.theta = 2000000.0}});
    read_biases(config, spec);
    const std::vector<bool> rotates = read_rotating_layers(config, spec.blocks.size());
    for (size_t block = 0; block < rotates.size(); ++block)
        if (!rotates[block]) spec.blocks[block].attention().rope.reset();
    read_windows_in_use(config, spec, read_window(config, std::nullopt),
                        [&](size_t block) { return !rotates[block]; });
    return spec;
}

Family smollm3() {
    return {{"SmolLM3ForCausalLM",
             "smollm3",
             read_smollm3,
             {.score_class = "SmolLM3ForSequenceClassification",
              .fields = {"no_rope_layer_interval", "no_rope_layers"}}}};
}

}  // namespace ringshard::model::architectures

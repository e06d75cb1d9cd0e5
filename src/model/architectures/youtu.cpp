#include <cmath>

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Attention to latents beside plain MLPs. Random weights are drawn by the width.
static ModelSpec read_youtu(ConfigReader& config) {
    const bool is_interleaved = config.boolean("rope_interleave", true);
    const auto width = static_cast<double>(config.whole_number("hidden_size", widest));
    const double deviation = 2 / std::sqrt(5 * width);
    LatentDefaults defaults;
    defaults.model.max_positions = 131072;
    defaults.model.tied = true;
    defaults.model.rope.is_interleaved = is_interleaved;
    defaults.model.initializer_range = deviation;
    return read_latent_model(config, defaults);
}

Family youtu() {
    return {{"YoutuForCausalLM",
             "youtu",
             read_youtu,
             {.fields = {"embedding_initializer_range", "rope_interleave"}}}};
}

}  // namespace ringshard::model::architectures

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Pairs of elements that rotate are neighbours; the output projection has no bias.
static ModelSpec read_helium(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.head_dim = 128,
                                  .key_heads = 20,
                                  .norm = {.epsilon = 1e-8},
                                  .padding_token = 3,
                                  .rope = {.theta = 100000.0, .is_interleaved = true}});
    read_biases(config, spec, {.has_out = false});
    const int64_t heads_width = spec.blocks.front().attention().out_width();
    if (heads_width != spec.width)
        config.complain(format_text(
            "head_dim = {}: all heads are {} wide, and must be as wide as hidden_size = {}",
            spec.heads().head_dim, heads_width, spec.width));
    return spec;
}

Family helium() {
    return {{"HeliumForCausalLM",
             "helium",
             read_helium,
             {.score_class = "HeliumForSequenceClassification"}}};
}

}  // namespace ringshard::model::architectures

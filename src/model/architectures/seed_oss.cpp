#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Queries, keys and values have biases; dropout is the default of transformers.
static ModelSpec read_seed_oss(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.head_dim = 128, .key_heads = 8, .padding_token = 1});
    read_biases(config, spec, {.attention = true, .has_out = false});
    const bool has_out_bias = config.boolean("attention_out_bias", false);
    for (BlockSpec& block : spec.blocks) block.attention().has_out_bias = has_out_bias;
    for (const char* name : {"attention_dropout", "residual_dropout"})
        if (!config.has(name))
            config.complain(
                format_text("{}: is 0.1 by default, and dropout is not served; set it to 0", name));
    return spec;
}

Family seed_oss() {
    return {{"SeedOssForCausalLM", "seed_oss", read_seed_oss, {.fields = {"attention_out_bias"}}}};
}

}  // namespace ringshard::model::architectures

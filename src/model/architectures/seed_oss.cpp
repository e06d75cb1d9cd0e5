#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Queries, keys and values have biases; dropout is the default of transformers.
static ModelSpec read_seed_oss(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.head_dim = 128, .key_heads = 8, .padding_token = 1});
    read_biases(config, spec, {.attention = true, .has_out = false});
    const bool has_out_bias = config.boolean("attention_out_bias", false);
    for (BlockSpec& block : spec.blocks) block.attention().has_out_bias = has_out_bias;
    refuse_usual_dropout(config, {"attention_dropout", "residual_dropout"});
    return spec;
}

Family seed_oss() {
    return {
        {"SeedOssForCausalLM",
         "seed_oss",
         read_seed_oss,
         {.score_class = "SeedOssForSequenceClassification", .fields = {"attention_out_bias"}}}};
}

}  // namespace ringshard::model::architectures

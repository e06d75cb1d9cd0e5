#include "common.hpp"

namespace ringshard::model {

// The plain model, with a factor for the embedding, the scores, both branches and the logits.
ModelSpec read_granite(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {});
    read_biases(config, spec);
    const double scale = config.number_above_0("attention_multiplier", 1.0);
    for (BlockSpec& block : spec.blocks) block.attention().scores.scale = scale;
    spec.embedding_multiplier = config.number_above_0("embedding_multiplier", 1.0);
    spec.logits_multiplier = 1 / config.number_above_0("logits_scaling", 1.0);
    const double of_branches = config.number_above_0("residual_multiplier", 1.0);
    for (BlockSpec& block : spec.blocks) block.residual_multiplier = of_branches;
    return spec;
}

}  // namespace ringshard::model

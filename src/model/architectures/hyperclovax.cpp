#include <cmath>

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Granite's factors, of which that of the logits multiplies, and norms behind the branches too.
static ModelSpec read_hyperclovax(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {});
    read_biases(config, spec);
    const double scale = config.number_above_0(
        "attention_multiplier", 1 / std::sqrt(static_cast<double>(spec.heads().head_dim)));
    spec.embedding_multiplier = config.number_above_0("embedding_multiplier", 1.0);
    spec.logits_multiplier = config.number_above_0("logits_scaling", 1.0);
    const double of_branches = config.number_above_0("residual_multiplier", 1.0);
    const bool has_norms_behind = config.boolean("use_post_norm", true);
    for (BlockSpec& block : spec.blocks) {
        block.attention().scores.scale = scale;
        block.residual_multiplier = of_branches;
        if (!has_norms_behind) continue;
        block.mixer().norms.behind = "post_norm1";
        block.feed_forward().norms.behind = "post_norm2";
    }
    return spec;
}

Family hyperclovax() {
    return {{"HyperCLOVAXForCausalLM",
             "hyperclovax",
             read_hyperclovax,
             {.fields = {"attention_multiplier", "embedding_multiplier", "logits_scaling",
                         "residual_multiplier", "use_post_norm"}}}};
}

}  // namespace ringshard::model::architectures

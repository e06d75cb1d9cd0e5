#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// LayerNorms whose factors are learned as the difference from 1, and squared ReLU without a gate.
static ModelSpec read_nemotron(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.norm = {.epsilon = 1e-5, .is_centred = true, .has_bias = true, .adds_one = true},
                 .norm_name = "norm_eps",
                 .activation = "relu2",
                 .rope = {.may_be_partial = true, .rotated_part = 0.5},
                 .initializer_range = 0.0134});
    read_biases(config, spec);
    for (BlockSpec& block : spec.blocks) block.mlp().is_gated = false;
    return spec;
}

Family nemotron() {
    return {{"NemotronForCausalLM",
             "nemotron",
             read_nemotron,
             {.score_class = "NemotronForSequenceClassification", .fields = {"norm_eps"}}}};
}

}  // namespace ringshard::model::architectures

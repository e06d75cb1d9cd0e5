#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// LayerNorms, biases everywhere, and squared ReLU without a gate.
static ModelSpec read_jais2(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.norm = {.epsilon = 1e-5, .is_centred = true, .has_bias = true},
                                  .norm_name = "layer_norm_eps",
                                  .activation = "relu2"});
    read_biases(config, spec, {.attention = true, .mlp = true});
    for (BlockSpec& block : spec.blocks) block.mlp().is_gated = false;
    return spec;
}

Family jais2() {
    return {{"Jais2ForCausalLM", "jais2", read_jais2, {.fields = {"layer_norm_eps"}}}};
}

}  // namespace ringshard::model::architectures

#include "common.hpp"

namespace ringshard::model {

// LayerNorms, biases everywhere, and squared ReLU without a gate.
ModelSpec read_jais2(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.norm = {.epsilon = 1e-5, .is_centred = true, .has_bias = true},
                                  .norm_name = "layer_norm_eps",
                                  .activation = "relu2"});
    read_biases(config, spec, {.attention = true, .mlp = true});
    for (BlockSpec& block : spec.blocks) block.mlp().is_gated = false;
    return spec;
}

}  // namespace ringshard::model

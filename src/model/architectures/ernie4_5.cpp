#include "common.hpp"

namespace ringshard::model {

// Pairs of elements that rotate are neighbours; use_bias gives every projection a bias.
ModelSpec read_ernie4_5(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.head_dim = 128,
                                  .key_heads = 2,
                                  .norm = {.epsilon = 1e-5},
                                  .padding_token = 0,
                                  .tied = true,
                                  .rope = {.theta = 500000.0, .is_interleaved = true}});
    read_use_bias(config, spec, false);
    return spec;
}

}  // namespace ringshard::model

#pragma once

#include "config_reader.hpp"
#include "ringshard/model/rope_spec.hpp"

namespace ringshard::model {

// transformers 5 writes rope_parameters; older releases rope_theta, and rope_scaling where
// positions are scaled. Complains to `config`.
RopeSpec read_rope(ConfigReader& config, int64_t max_positions);

}  // namespace ringshard::model

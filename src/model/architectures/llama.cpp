#include "common.hpp"

namespace ringshard::model {

// The plain model, with biases of the attention where config.json asks for them.
ModelSpec read_llama(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {});
    read_biases(config, spec);
    return spec;
}

}  // namespace ringshard::model

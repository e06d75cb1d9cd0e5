#include "common.hpp"

namespace ringshard::model {

// The plain model, whose blocks all look through one window unless sliding_window is null.
ModelSpec read_mistral(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 8});
    set_window_of_all(spec, read_window(config, usual_window));
    return spec;
}

}  // namespace ringshard::model

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

namespace {

// Llama with a squared ReLU in place of a gate.
ModelSpec read_arcee(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.norm = {.epsilon = 1e-5}, .activation = "relu2"});
    read_biases(config, spec);
    for (BlockSpec& block : spec.blocks) block.mlp().is_gated = false;
    return spec;
}

}  // namespace

Family arcee() { return {{.name = "ArceeForCausalLM", .model_type = "arcee", .read = read_arcee}}; }

}  // namespace ringshard::model::architectures

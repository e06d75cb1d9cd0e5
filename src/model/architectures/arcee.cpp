#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Llama with a squared ReLU in place of a gate.
static ModelSpec read_arcee(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.norm = {.epsilon = 1e-5}, .activation = "relu2"});
    read_biases(config, spec);
    for (BlockSpec& block : spec.blocks) block.mlp().is_gated = false;
    return spec;
}

Family arcee() {
    return {{"ArceeForCausalLM",
             "arcee",
             read_arcee,
             {.score_class = "ArceeForSequenceClassification"}}};
}

}  // namespace ringshard::model::architectures

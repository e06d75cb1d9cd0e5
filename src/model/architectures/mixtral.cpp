#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Mistral with experts in place of the MLP, and names of its own for their tensors.
static ModelSpec read_mixtral(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.key_heads = 8, .norm = {.epsilon = 1e-5}, .rope = {.theta = 1e6}});
    ExpertsSpec experts = read_experts(
        config, spec,
        {.count = 8, .per_token = 2, .intermediate_name = "intermediate_size", .aux_loss = 0.001});
    experts.routing.normalises = true;
    experts.router = "block_sparse_moe.gate";
    experts.experts = "block_sparse_moe.experts";
    experts.gate = "w1";
    experts.up = "w3";
    experts.down = "w2";
    if (config.has("router_jitter_noise") && config.part("router_jitter_noise") != 0.0)
        config.complain(format_text("router_jitter_noise = {}: is not served; must be 0",
                                    shown(config.part("router_jitter_noise").dump())));
    const std::optional<int64_t> window = read_window(config, std::nullopt);
    for (BlockSpec& block : spec.blocks) {
        block.attention().mask.window = window;
        block.feed_forward().part = experts;
    }
    return spec;
}

Family mixtral() {
    return {{"MixtralForCausalLM",
             "mixtral",
             read_mixtral,
             {.score_class = "MixtralForSequenceClassification",
              .fields = {"router_jitter_noise"},
              .peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures

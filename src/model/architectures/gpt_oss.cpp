#include "../reading/common.hpp"

namespace ringshard::model::architectures {

static ExpertsSpec read_turned_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 128,
                                        .per_token = 4,
                                        .intermediate_name = "intermediate_size",
                                        .aux_loss = 0.001});
    // The softmax of the chosen logits is that of all, to the sum 1.
    experts.routing.normalises = true;
    experts.tensors = ExpertTensors::turned;
    experts.clamped = {.alpha = config.number_above_0("swiglu_alpha", 1.702),
                       .limit = config.number_above_0("swiglu_limit", 7.0)};
    experts.router = "mlp.router";
    experts.router_has_bias = true;
    experts.up = "gate_up_proj";
    return experts;
}

// Experts with biases in all blocks, windows in every other one, heads with sinks.
static ModelSpec read_gpt_oss(ConfigReader& config) {
    const nlohmann::json usual{{"rope_type", "yarn"}, {"factor", 32.0},
                               {"beta_fast", 32.0},   {"beta_slow", 1.0},
                               {"truncate", false},   {"original_max_position_embeddings", 4096}};
    ModelSpec spec = read_plain_model(config, {.head_dim = 64,
                                               .key_heads = 8,
                                               .norm = {.epsilon = 1e-5},
                                               .rope = {.theta = 150000.0, .usual = usual},
                                               .reads_mxfp4 = true});
    read_attention_bias(config, spec, {.attention = true});
    const ExpertsSpec experts = read_turned_experts(config, spec);
    set_windows(
        config, spec,
        read_layer_types(config, spec.blocks.size(), [](size_t block) { return block % 2 == 0; }),
        read_window(config, 128));
    for (BlockSpec& block : spec.blocks) {
        block.attention().sinks = "self_attn.sinks";
        block.feed_forward().part = experts;
    }
    return spec;
}

Family gpt_oss() {
    return {{"GptOssForCausalLM",
             "gpt_oss",
             read_gpt_oss,
             {.score_class = "GptOssForSequenceClassification",
              .fields = {"swiglu_alpha", "swiglu_limit"}}}};
}

}  // namespace ringshard::model::architectures

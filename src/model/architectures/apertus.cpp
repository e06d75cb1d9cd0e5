#include "../reading/common.hpp"
#include "ringshard/ops/xielu.hpp"

namespace ringshard::model::architectures {

// Files hold the constants of xIELU beside its scalars.
static void add_constants(ModelSpec& spec) {
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        const std::string activation = format_text("{}.{}.mlp.act_fn.", spec.names.blocks, block);
        spec.constants.push_back({activation + "beta", static_cast<float>(ops::xielu_form::beta)});
        spec.constants.push_back(
            {activation + "eps", static_cast<float>(ops::xielu_form::ceiling)});
    }
}

// An MLP without a gate, whose activation has two trained scalars, and heads that are normed.
static ModelSpec read_apertus(ConfigReader& config) {
    const nlohmann::json usual{
        {"rope_type", "llama3"},   {"rope_theta", 12e6},
        {"factor", 8.0},           {"low_freq_factor", 1.0},
        {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
    ModelSpec spec = read_plain_model(config, {.norm = {.epsilon = 1e-5},
                                               .padding_token = 3,
                                               .activation = "xielu",
                                               .knows_xielu = true,
                                               .rope = {.theta = 12e6, .usual = usual}});
    read_attention_bias(config, spec);
    const bool has_xielu = config.word("hidden_act", "xielu") == "xielu";
    for (BlockSpec& block : spec.blocks) {
        block.mixer().norms.before = "attention_layernorm";
        block.feed_forward().norms.before = "feedforward_layernorm";
        block.attention().head_norm = HeadNormKind::each_head;
        block.mlp().is_gated = false;
        block.mlp().has_xielu = has_xielu;
    }
    if (has_xielu) add_constants(spec);
    return spec;
}

Family apertus() { return {{"ApertusForCausalLM", "apertus", read_apertus}}; }

}  // namespace ringshard::model::architectures

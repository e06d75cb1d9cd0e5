#include "../reading/common.hpp"

namespace ringshard::model::architectures {

static MambaSpec read_state(ConfigReader& config, const ModelSpec& spec) {
    MambaSpec mamba = read_mamba(config, spec, 1024);
    mamba.has_out_bias = config.boolean("projectors_bias", false);
    mamba.has_norm = config.boolean("mamba_rms_norm", false);
    const double of_rows = read_factor_of_rows(config, "ssm_in_multiplier", "mamba_proj_bias");
    const std::vector<double> factors = read_factors(config, "ssm_multipliers", 5);
    for (size_t i = 0; i < factors.size(); ++i) mamba.multipliers[i] = of_rows * factors[i];
    if (mamba.has_norm && config.boolean("mamba_norm_before_gate", true))
        config.complain("mamba_norm_before_gate = true: must be false beside mamba_rms_norm");
    return mamba;
}

// A Mamba layer beside attention in each block, and factors everywhere: that of keys belongs to the
// scores, and that of the rows that the attention reads to these twice, and to its result.
static ModelSpec read_falcon_h1(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.key_heads = 8, .norm = {.epsilon = 1e-5}, .padding_token = 0});
    read_biases(config, spec);
    const auto factor = [&](const char* name) { return config.number_above_0(name, 1.0); };
    const LayerSpec<MixerSpec> state{.part = read_state(config, spec),
                                     .is_parallel = true,
                                     .factor = factor("ssm_out_multiplier")};
    const double of_rows = read_factor_of_rows(config, "attention_in_multiplier", "attention_bias");
    const std::vector<double> of_mlp = read_factors(config, "mlp_multipliers", 2);
    spec.embedding_multiplier = factor("embedding_multiplier");
    spec.logits_multiplier = factor("lm_head_multiplier");
    spec.names.final_norm = "model.final_layernorm";
    for (BlockSpec& block : spec.blocks) {
        ops::ScoreForm& scores = block.attention().scores;
        scores.scale = of_rows * of_rows * factor("key_multiplier") *
                       scores.scale_of(block.attention().heads.head_dim);
        block.mixer().factor = of_rows * factor("attention_out_multiplier");
        block.feed_forward().norms.before = "pre_ff_layernorm";
        block.feed_forward().factor = of_mlp[1];
        block.mlp().gate = "feed_forward.gate_proj";
        block.mlp().up = "feed_forward.up_proj";
        block.mlp().down = "feed_forward.down_proj";
        block.mlp().gate_multiplier = of_mlp[0];
        block.mixers.push_back(state);
    }
    return spec;
}

Family falcon_h1() {
    return {
        {"FalconH1ForCausalLM",
         "falcon_h1",
         read_falcon_h1,
         {.fields = {"attention_in_multiplier", "attention_out_multiplier", "embedding_multiplier",
                     "key_multiplier", "lm_head_multiplier", "mlp_multipliers", "projectors_bias",
                     "ssm_in_multiplier", "ssm_multipliers", "ssm_out_multiplier"}}}};
}

}  // namespace ringshard::model::architectures

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

static ModelSpec read_short_convolutions(ConfigReader& config, const char* intermediate) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 8,
                                               .norm = {.epsilon = 1e-5},
                                               .norm_name = "norm_eps",
                                               .intermediate_name = intermediate,
                                               .padding_token = 0,
                                               .tied = true,
                                               .rope = {.theta = 1e6}});
    spec.tied = config.boolean("tie_embedding", spec.tied);
    if (spec.blocks.front().mlp().activation != ops::Activation::silu)
        config.complain("hidden_act: must be \"silu\" in a model with short convolutions");
    spec.names.final_norm = "model.embedding_norm";
    const ShortConvSpec conv{
        .sizes = {.key_heads = spec.width, .value_heads = spec.width, .value_dim = 1},
        .taps = config.whole_number_or("conv_L_cache", attention::rows_before + 1, 3),
        .has_bias = config.boolean("conv_bias", false)};
    std::vector<bool> convolves(spec.blocks.size());
    if (config.has("layer_types"))
        convolves = read_state_layers(config, "layer_types", convolves.size(), "conv");
    else if (config.has("full_attn_idxs"))
        convolves = read_unlisted_layers(config, "full_attn_idxs", convolves.size());
    for (size_t i = 0; i < convolves.size(); ++i) {
        BlockSpec& block = spec.blocks[i];
        block.mlp() = {.intermediate = block.mlp().intermediate,
                       .gate = "feed_forward.w1",
                       .up = "feed_forward.w3",
                       .down = "feed_forward.w2"};
        block.mixer().norms.before = "operator_norm";
        block.feed_forward().norms.before = "ffn_norm";
        block.attention().out = "self_attn.out_proj";
        block.attention().head_norm = HeadNormKind::each_head;
        block.attention().query_norm = "self_attn.q_layernorm";
        block.attention().key_norm = "self_attn.k_layernorm";
        if (convolves[i]) block.mixer().part = conv;
    }
    return spec;
}

// An MLP of two thirds of the given width, and of a multiple of a number.
static ModelSpec read_lfm2(ConfigReader& config) {
    ModelSpec spec = read_short_convolutions(
        config, config.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size");
    const double factor = config.number_above_0("block_ffn_dim_multiplier", 1);
    const int64_t multiple = config.whole_number_or("block_multiple_of", widest, 256);
    if (!config.boolean("block_auto_adjust_ff_dim", true)) return spec;
    for (BlockSpec& block : spec.blocks) {
        const auto part = static_cast<double>(2 * block.mlp().intermediate / 3);
        const auto wide = static_cast<int64_t>(factor * part);
        block.mlp().intermediate = (wide + multiple - 1) / multiple * multiple;
    }
    return spec;
}

// Experts in all blocks but the first ones, with routers of sigmoids and corrections.
static ModelSpec read_lfm2_moe(ConfigReader& config) {
    ModelSpec spec = read_short_convolutions(config, "intermediate_size");
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 32,
                                        .per_token = 4,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = "num_experts"});
    experts.routing = {.is_sigmoid = true,
                       .normalises = config.boolean("norm_topk_prob", true),
                       .added_to_sum = 1e-6,
                       .scaling = config.number_above_0("routed_scaling_factor", 1)};
    experts.router = "feed_forward.gate";
    experts.experts = "feed_forward.experts";
    experts.gate = "w1";
    experts.up = "w3";
    experts.down = "w2";
    if (config.boolean("use_expert_bias", true)) experts.correction = "feed_forward.expert_bias";
    set_experts_behind_dense(spec, experts, read_first_dense(config, 2, "num_dense_layers"));
    return spec;
}

Family lfm2() {
    return {{"Lfm2ForCausalLM",
             "lfm2",
             read_lfm2,
             {.fields = {"block_auto_adjust_ff_dim", "block_ff_dim", "block_ffn_dim_multiplier",
                         "block_multiple_of", "conv_L_cache", "conv_bias", "full_attn_idxs",
                         "norm_eps", "tie_embedding"}}},
            {"Lfm2MoeForCausalLM",
             "lfm2_moe",
             read_lfm2_moe,
             {.fields = {"num_dense_layers", "use_expert_bias"}}}};
}

}  // namespace ringshard::model::architectures

#include "common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model {

namespace {

using nlohmann::json;

// The lengths of steps have no limits: [0, infinity], as transformers writes it.
void check_step_limits(ConfigReader& config) {
    const json limits = config.part("time_step_limit");
    const json none{0.0, {{"__float__", "Infinity"}}};
    if (!limits.is_null() && limits != none)
        config.complain(
            format_text("time_step_limit = {}: must be {}: steps with limits are not served",
                        shown(limits.dump()), shown(none.dump())));
}

}  // namespace

// In Mamba's terms: heads and head_dim are those of values; groups and the size of the state those
// of B and C.
MambaSpec read_mamba(ConfigReader& config, const ModelSpec& spec, std::optional<int64_t> width) {
    const int64_t heads = config.whole_number_or("mamba_n_heads", widest, 128);
    const int64_t groups = config.whole_number_or("mamba_n_groups", widest, 1);
    const int64_t state = config.whole_number_or("mamba_d_state", widest, 256);
    const int64_t expand = config.whole_number_or("mamba_expand", widest / spec.width, 2);
    const int64_t values = width.value_or(expand * spec.width);
    const char* const product = width ? "mamba_d_ssm" : "mamba_expand * hidden_size";
    if (values % heads != 0 || heads % groups != 0)
        config.complain(format_text(
            "mamba_n_heads = {}: must divide {} = {}, and be a multiple of mamba_n_groups = {}",
            heads, product, values, groups));
    else if (const json head_dim = config.part("mamba_d_head");
             !head_dim.is_null() && head_dim != "auto" && head_dim != values / heads)
        config.complain(
            format_text("mamba_d_head = {}: must be {} / mamba_n_heads = {}, or \"auto\"",
                        shown(head_dim.dump()), product, values / heads));
    if (state > widest / groups) config.complain("mamba_d_state: is wider than any model");
    const int64_t taps = config.whole_number_or("mamba_d_conv", widest, 4);
    if (taps != attention::rows_before + 1)
        config.complain(
            format_text("mamba_d_conv = {}: must be {}", taps, attention::rows_before + 1));
    if (spec.blocks.front().mlp().activation != ops::Activation::silu)
        config.complain("hidden_act: must be \"silu\" in a model with Mamba layers");
    check_step_limits(config);
    const bool has_bias = config.boolean("mamba_proj_bias", false);
    return {.sizes = {groups, heads, state, values / heads, ops::StateRule::additive},
            .has_bias = has_bias,
            .has_out_bias = has_bias,
            .has_conv_bias = config.boolean("mamba_conv_bias", true),
            .norm_groups = groups};
}

// Plain blocks, of which those in attn_layer_indices attend and all others have a state.
ModelSpec read_bamba(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.norm = {.epsilon = 1e-5},
                                  .padding_token = 0,
                                  .rope = {.may_be_partial = true, .rotated_part = 0.5}});
    read_biases(config, spec);
    if (config.part("z_loss_coefficient").is_number() && config.part("z_loss_coefficient") != 0)
        config.complain(format_text(
            "z_loss_coefficient = {}: a loss of the logits' size is not served; it must be 0",
            shown(config.part("z_loss_coefficient").dump())));
    const MambaSpec mamba = read_mamba(config, spec);
    spec.names.final_norm = "model.final_layernorm";
    for (BlockSpec& block : spec.blocks) {
        block.feed_forward().norms.before = "pre_ff_layernorm";
        block.mlp().gate = "feed_forward.gate_proj";
        block.mlp().up = "feed_forward.up_proj";
        block.mlp().down = "feed_forward.down_proj";
    }
    const std::vector<bool> has_state =
        read_unlisted_layers(config, "attn_layer_indices", spec.blocks.size());
    for (size_t block = 0; block < has_state.size(); ++block)
        if (has_state[block]) spec.blocks[block].mixer().part = mamba;
    return spec;
}

}  // namespace ringshard::model

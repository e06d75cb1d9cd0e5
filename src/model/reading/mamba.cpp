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
MambaSpec read_mamba(ConfigReader& config, const ModelSpec& spec, std::optional<int64_t> columns) {
    std::optional<int64_t> width;
    if (columns && (!config.content().contains("mamba_d_ssm") || config.has("mamba_d_ssm")))
        width = config.whole_number_or("mamba_d_ssm", widest, *columns);
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

MambaSpec read_mamba_by_head(ConfigReader& config) {
    // Old files have other names for some fields.
    const auto name = [&](const char* old, const char* now) { return config.has(old) ? old : now; };
    const char* const of_groups = name("mamba_n_groups", "n_groups");
    const char* const of_taps = name("mamba_d_conv", "conv_kernel");
    const int64_t heads = config.whole_number_or("mamba_num_heads", widest, 128);
    const int64_t head_dim = config.whole_number_or("mamba_head_dim", widest / heads, 64);
    const int64_t groups = config.whole_number_or(of_groups, widest, 8);
    const int64_t state = config.whole_number_or("ssm_state_size", widest / groups, 128);
    if (heads % groups != 0)
        config.complain(format_text("mamba_num_heads = {}: must be a multiple of {} = {}", heads,
                                    of_groups, groups));
    if (const int64_t taps = config.whole_number_or(of_taps, widest, 4);
        taps != attention::rows_before + 1)
        config.complain(
            format_text("{} = {}: must be {}", of_taps, taps, attention::rows_before + 1));
    if (const std::string act = config.word("mamba_hidden_act", "silu"); act != "silu")
        config.complain(format_text("mamba_hidden_act = {}: must be \"silu\"", act));
    check_step_limits(config);
    const bool has_bias = config.boolean("use_bias", false);
    return {.sizes = {groups, heads, state, head_dim, ops::StateRule::additive},
            .has_bias = has_bias,
            .has_out_bias = has_bias,
            .has_conv_bias = config.boolean(name("mamba_conv_bias", "use_conv_bias"), true),
            .norm_groups = groups,
            .least_step = config.number_above_0(name("mamba_dt_min", "time_step_min"), 0.001)};
}

}  // namespace ringshard::model

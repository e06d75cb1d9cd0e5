#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// transformers' default of the part that rotates depends on the type of the positions.
static void check_rotated_parts(ConfigReader& config) {
    const nlohmann::json positions = config.part("rope_parameters");
    if (!positions.is_object()) return;
    for (const auto& [layers, fields] : positions.items())
        if (fields.is_object() && !fields.contains("partial_rotary_factor"))
            config.complain(
                format_text("rope_parameters: {}: partial_rotary_factor: must be there", layers));
}

static ExpertsSpec read_mimo_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_grouped_experts(config, spec, {.count = 256, .per_token = 8});
    experts.shared.reset();
    return experts;
}

// Blocks with windows have twice as many keys, and sinks. Values are narrower than keys, and
// multiplied by a number. Experts alone in all blocks but the first ones. Files may hold blocks
// that predict further tokens.
static ModelSpec read_mimo_v2_flash(ConfigReader& config) {
    const Defaults defaults{
        .head_dim = 192,
        .key_heads = 4,
        .norm = {.epsilon = 1e-5},
        .max_positions = 131072,
        .rope = {.theta = 5000000.0, .may_be_partial = true, .rotated_part = 0.334},
        .has_ropes_by_layer = true};
    ModelSpec spec = read_plain_model(config, defaults);
    read_attention_bias(config, spec, {.has_out = false});
    check_rotated_parts(config);
    read_layers(config, spec, defaults,
                {.rotated_part = 0.334, .window = 129, .has_window = [](size_t block) {
                     return block != 0 && (block + 1) % 6 != 0;
                 }});
    const int64_t seen_before = config.whole_number_or("sliding_window_size", widest, 0);
    for (BlockSpec& block : spec.blocks) {
        AttentionSpec& attention = block.attention();
        attention.value_dim = config.whole_number_or("v_head_dim", widest, 128);
        attention.value_factor =
            config.number_above_0("attention_value_scale",
                                  config.content().contains("attention_value_scale") ? 1 : 0.707);
        if (attention.value_dim > attention.heads.head_dim)
            config.complain(format_text("v_head_dim = {}: must be at most head_dim = {}",
                                        attention.value_dim, attention.heads.head_dim));
        if (!attention.mask.window) continue;
        attention.heads.key_heads *= 2;
        if (attention.heads.query_heads % attention.heads.key_heads != 0)
            config.complain(format_text(
                "num_attention_heads = {}: must be a multiple of {} key heads, of layers with "
                "windows",
                attention.heads.query_heads, attention.heads.key_heads));
        attention.sinks = "self_attn.attention_sink_bias";
        if (seen_before > 0) attention.mask.window = seen_before + 1;
    }
    const ExpertsSpec experts = read_mimo_experts(config, spec);
    set_experts_behind_dense(
        spec, experts,
        config.has("mlp_layer_types") ? read_first_sparse(config, spec.blocks.size()) : 1);
    spec.other_names = {{"self_attn.attention_sink_bias", "self_attn.sinks"}};
    spec.ignores_further_blocks = true;
    return spec;
}

Family mimo_v2_flash() {
    return {{"MiMoV2FlashForCausalLM",
             "mimo_v2_flash",
             read_mimo_v2_flash,
             {.fields = {"attention_value_scale", "sliding_window_size"}}}};
}

}  // namespace ringshard::model::architectures

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Norms stand behind the branches of a block, and queries and keys are normed over all heads.
static ModelSpec read_olmo_fields(ConfigReader& config, const Defaults& defaults) {
    ModelSpec spec = read_plain_model(config, defaults);
    read_attention_bias(config, spec);
    for (BlockSpec& block : spec.blocks) {
        set_norms_behind(block);
        block.attention().head_norm = HeadNormKind::all_heads;
    }
    return spec;
}

// LayerNorms without factors.
static ModelSpec read_olmo(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.norm = {.epsilon = 1e-5, .is_centred = true, .has_weight = false},
                 .norm_name = nullptr,
                 .padding_token = 1});
    read_attention_bias(config, spec);
    if (config.has("clip_qkv"))
        config.complain(
            format_text("clip_qkv = {}: queries, keys and values that are clipped are not served; "
                        "it must be null",
                        shown(config.part("clip_qkv").dump())));
    return spec;
}

static ModelSpec read_olmo2(ConfigReader& config) {
    return read_olmo_fields(config, {.norm = {.epsilon = 1e-5}, .padding_token = 1});
}

// With windows in three blocks of four, and positions by the kind of the block.
static ModelSpec read_olmo3(ConfigReader& config) {
    const Defaults defaults{.norm = {.epsilon = 1e-5},
                            .padding_token = 1,
                            .rope = {.theta = 500000.0},
                            .has_ropes_by_layer = true};
    ModelSpec spec = read_olmo_fields(config, defaults);
    const RopeForm full = rope_form(spec, defaults);
    RopeForm sliding = full;
    sliding.theta_name = "";  // rope_theta is of the others
    spec.ropes = read_ropes_by_layer(config, full, sliding);
    const std::vector<bool> windows = read_window_pattern(config, spec.blocks.size(), 4);
    set_windows(config, spec, windows, read_window(config, usual_window));
    set_ropes(spec, windows);
    return spec;
}

Family olmo() {
    return {
        {"Olmo2ForCausalLM",
         "olmo2",
         read_olmo2,
         {.score_class = "Olmo2ForSequenceClassification", .fields = {"clip_qkv"}}},
        {"Olmo3ForCausalLM",
         "olmo3",
         read_olmo3,
         {.score_class = "Olmo3ForSequenceClassification"}},
        {"OlmoForCausalLM", "olmo", read_olmo, {.score_class = "OlmoForSequenceClassification"}}};
}

}  // namespace ringshard::model::architectures

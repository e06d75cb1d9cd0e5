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
    refuse_unread(config, "sliding_window_pattern", 4, "layer_types");
    const std::vector<bool> windows = read_window_pattern(config, spec.blocks.size(), 4);
    set_windows(config, spec, windows, read_window(config, usual_window));
    set_ropes(spec, windows);
    return spec;
}

// beta may reach 2, so that a token may turn its key's value over.
static DeltaNetSpec read_delta(ConfigReader& config, const ModelSpec& spec) {
    const int64_t heads = spec.heads().query_heads;
    const int64_t key_heads = config.whole_number_or("linear_num_key_heads", widest, heads);
    const int64_t key_dim =
        config.whole_number_or("linear_key_head_dim", widest, spec.width * 3 / 4 / key_heads);
    return {.sizes = read_delta_sizes(config, {.key_heads = heads,
                                               .value_heads = heads,
                                               .key_dim = key_dim,
                                               .value_dim = 2 * key_dim}),
            .layers = DeltaLayers::of_heads,
            .out = "linear_attn.o_proj",
            .norm_epsilon = 1e-5,
            .beta_scale = config.boolean("linear_allow_neg_eigval", true) ? 2.0 : 1.0};
}

// Delta nets behind norms of names of their own, beside attention as that of OLMo 3 without
// windows, whose heads may not rotate.
static ModelSpec read_olmo_hybrid(ConfigReader& config) {
    const nlohmann::json rope = config.part("rope_parameters");
    const bool rotates = rope.is_object() && !rope.value("rope_theta", nlohmann::json()).is_null();
    ModelSpec spec = read_olmo_fields(
        config, {.max_positions = 65536, .padding_token = 100277, .has_ropes_by_layer = !rotates});
    // transformers saves the norms behind attention under that name, and reads either.
    spec.other_names = {{"post_attention_layernorm", "feedforward_layer_norm"}};
    const DeltaNetSpec delta = read_delta(config, spec);
    const std::vector<bool> has_state = read_grouped_states(config, spec.blocks.size(), 4);
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        BlockSpec& layers = spec.blocks[block];
        layers.feed_forward().norms.behind = "post_feedforward_layernorm";
        if (!rotates) layers.attention().rope.reset();
        if (!has_state[block]) continue;
        layers.mixer() = {.part = delta, .norms = {.before = "attention_layer_norm", .behind = {}}};
        layers.feed_forward().norms = {.before = "feedforward_layer_norm", .behind = {}};
    }
    return spec;
}

Family olmo() {
    return {
        {"OlmoHybridForCausalLM",
         "olmo_hybrid",
         read_olmo_hybrid,
         {.fields = {"linear_a_log_max", "linear_a_log_min", "linear_allow_neg_eigval",
                     "linear_dt_init_floor", "linear_dt_max", "linear_dt_min"}}},
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

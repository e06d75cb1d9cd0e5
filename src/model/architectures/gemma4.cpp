#include <cmath>

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

using nlohmann::json;

static void refuse_later_tokens(ConfigReader& config) {
    const char* const name = "use_bidirectional_attention";
    const json sees_later = config.part(name);
    if (!sees_later.is_null() && sees_later != "vision")
        config.complain(
            format_text("{} = {}: tokens see earlier ones alone; must be \"vision\" or null", name,
                        shown(sees_later.dump())));
}

// Returns a number that may be 0, as null is.
static int64_t read_count(ConfigReader& config, const char* name, int64_t most, int64_t usual) {
    if (!config.content().contains(name)) return usual;
    const json value = config.part(name);
    return value.is_null() || value == 0 ? 0 : config.whole_number(name, most);
}

// Reads the embeddings of layers: E2B and E4B have them.
static void read_layer_embeddings(ConfigReader& config, ModelSpec& spec, int64_t usual_width) {
    const int64_t width = read_count(config, "hidden_size_per_layer_input", widest, usual_width);
    if (width == 0) return;
    const int64_t rows = config.whole_number_or("vocab_size_per_layer_input", widest, 262144);
    if (rows != spec.vocabulary)
        config.complain(format_text(
            "vocab_size_per_layer_input = {}: must be vocab_size = {}: the embeddings of "
            "layers have a row for each token",
            rows, spec.vocabulary));
    spec.layer_embeddings = {.width = width};
    for (BlockSpec& block : spec.blocks)
        block.embedding = {.part = {.width = width, .activation = block.mlp().activation},
                           .norms = {.before = {}, .behind = "post_per_layer_input_norm"}};
}

// The last blocks take keys and values of the last block before them that sees as far; their MLP
// may be twice as wide.
static void read_shared_keys(ConfigReader& config, ModelSpec& spec,
                             const std::vector<bool>& windows) {
    const auto count = static_cast<int64_t>(spec.blocks.size());
    const int64_t taking = read_count(config, "num_kv_shared_layers", most_blocks, 0);
    const bool is_wide = config.boolean("use_double_wide_mlp", false);
    if (taking == 0) return;
    const int64_t making = count - taking;
    for (int64_t block = std::max<int64_t>(0, making); block < count; ++block) {
        const size_t group = windows[static_cast<size_t>(block)] ? 0 : 1;
        int64_t maker = making - 1;
        while (maker >= 0 &&
               windows[static_cast<size_t>(maker)] != windows[static_cast<size_t>(block)])
            --maker;
        if (maker < 0) {
            config.complain(
                format_text("num_kv_shared_layers = {}: block {} takes the keys of an earlier one "
                            "that sees as far, and none of the {} blocks before does",
                            taking, block, std::max<int64_t>(0, making)));
            return;
        }
        spec.blocks[static_cast<size_t>(maker)].attention().shared_keys = {group, true};
        BlockSpec& taker = spec.blocks[static_cast<size_t>(block)];
        taker.attention().shared_keys = {group, false};
        taker.attention().values_are_keys = false;
        if (is_wide) taker.mlp().intermediate *= 2;
    }
}

// Returns what per_layer_config changes in the layers that see everything: their heads.
static json read_layers_with_all_tokens(ConfigReader& config, const std::vector<bool>& windows) {
    const json by_layer = config.part("per_layer_config");
    if (!by_layer.is_object()) {
        config.complain(
            format_text("per_layer_config = {}: must be an object", shown(by_layer.dump())));
        return json::object();
    }
    const auto first = static_cast<size_t>(std::ranges::find(windows, false) - windows.begin());
    const auto of_layer = [&](size_t block) {
        return by_layer.value(concat(block), json::object());
    };
    const json fields = of_layer(first);
    for (size_t block = 0; block < windows.size(); ++block)
        if (of_layer(block) != (windows[block] ? json::object() : fields))
            config.complain(format_text(
                "per_layer_config: {}: layers with \"full_attention\" alone have heads of their "
                "own, and all of them the same",
                block));
    if (!fields.is_object()) {
        config.complain(format_text("per_layer_config: {} = {}: must be an object", first,
                                    shown(fields.dump())));
        return json::object();
    }
    for (const auto& [name, value] : fields.items())
        if (name != "head_dim" && name != "num_key_value_heads")
            config.complain(format_text(
                "per_layer_config: {}: {} = {}: layers differ in head_dim and num_key_value_heads "
                "alone",
                first, shown(name), shown(value.dump())));
    return fields;
}

// Returns the heads of the layers that see everything. transformers writes what differs in them as
// per_layer_config.
static attention::HeadCounts read_global_heads(ConfigReader& config, const ModelSpec& spec,
                                               const std::vector<bool>& windows,
                                               bool values_are_keys) {
    attention::HeadCounts heads = spec.heads();
    json fields = json::object();
    if (config.has("per_layer_config")) {
        fields = read_layers_with_all_tokens(config, windows);
    } else {
        fields["head_dim"] = config.whole_number_or("global_head_dim", widest, 512);
        if (values_are_keys && config.has("num_global_key_value_heads"))
            fields["num_key_value_heads"] = config.part("num_global_key_value_heads");
    }
    ConfigReader reader(config.file(), fields, "layers with \"full_attention\": ");
    heads.head_dim = reader.whole_number_or("head_dim", widest, heads.head_dim);
    heads.key_heads = reader.whole_number_or("num_key_value_heads", most_blocks, heads.key_heads);
    if (heads.query_heads % heads.key_heads != 0)
        reader.complain(
            format_text("num_key_value_heads = {}: must divide num_attention_heads = {}",
                        heads.key_heads, heads.query_heads));
    config.complain(reader);
    return heads;
}

static void read_positions(ConfigReader& config, ModelSpec& spec, const Defaults& defaults,
                           int64_t global_head_dim) {
    RopeForm sliding = rope_form(spec, defaults);
    RopeForm full = sliding;
    full.theta = 1000000.0;
    full.head_dim = global_head_dim;
    full.may_be_partial = true;
    json positions = config.part("rope_parameters");
    if (positions.is_null())
        positions["full_attention"] = {{"rope_type", "proportional"},
                                       {"partial_rotary_factor", 0.25}};
    ConfigReader reader(config.file(), {{"rope_parameters", std::move(positions)}});
    spec.ropes = read_ropes_by_layer(reader, full, sliding);
    if (const RopeSpec& of_full = spec.ropes.front();
        of_full.rotated_part != 1 && of_full.kind != RopeKind::proportional)
        reader.complain(
            "rope_parameters: full_attention: partial_rotary_factor: is served with rope_type "
            "\"proportional\" alone; set it to 1");
    config.complain(reader);
}

// Experts beside the MLP: each has norms of its own, and so has the router.
static LayerSpec<FeedForwardSpec> read_experts_beside_mlp(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 0,
                                        .per_token = 0,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = "num_experts",
                                        .per_token_name = "top_k_experts"});
    experts.routing.normalises = true;
    experts.tensors = ExpertTensors::stacked;
    experts.router = "router.proj";
    experts.router_is_layer = true;
    experts.router_scale = "router.scale";
    experts.expert_scales = "router.per_expert_scale";
    experts.experts = "experts";
    experts.up = "gate_up_proj";
    experts.down = "down_proj";
    experts.beside = BesideExperts{
        .mlp = spec.blocks.front().mlp(),
        .norms = {.before = "pre_feedforward_layernorm", .behind = "post_feedforward_layernorm_1"},
        .behind_experts = "post_feedforward_layernorm_2"};
    return {
        .part = experts,
        .norms = {.before = "pre_feedforward_layernorm_2", .behind = "post_feedforward_layernorm"}};
}

// What the releases differ in where config.json leaves it out.
struct Usual {
    int64_t window;
    int64_t max_positions;
    int64_t width_per_layer;
};

// Layers that see everything have wider heads, whose values may be the keys before their norm; all
// values are normed, and a number multiplies the stream behind each layer.
static ModelSpec read_text(ConfigReader& config, const Usual& usual) {
    const Defaults defaults{.head_dim = 256,
                            .key_heads = 4,
                            .max_positions = usual.max_positions,
                            .padding_token = 0,
                            .tied = true,
                            .activation = "gelu_pytorch_tanh",
                            .activation_name = "hidden_activation",
                            .has_ropes_by_layer = true};
    ModelSpec spec = read_plain_model(config, defaults);
    read_attention_bias(config, spec);
    refuse_later_tokens(config);
    spec.embedding_multiplier = std::sqrt(static_cast<double>(spec.width));
    spec.rounds_embedding_multiplier = true;
    spec.logits_cap = read_cap(config, "final_logit_softcapping", 0);
    std::vector<bool> windows =
        read_layer_types(config, spec.blocks.size(), [](size_t block) { return block % 6 != 5; });
    windows.back() = false;  // whatever layer_types says, as in transformers
    set_windows(config, spec, windows, read_window(config, usual.window));
    set_ropes(spec, windows);
    const bool values_are_keys = config.boolean("attention_k_eq_v", false);
    const attention::HeadCounts global = read_global_heads(config, spec, windows, values_are_keys);
    read_positions(config, spec, defaults, global.head_dim);
    for (size_t number = 0; number < spec.blocks.size(); ++number) {
        BlockSpec& block = spec.blocks[number];
        AttentionSpec& attention = block.attention();
        if (!windows[number]) attention.heads = global;
        attention.values_are_keys = values_are_keys && !windows[number];
        attention.head_norm = HeadNormKind::each_head;
        attention.norms_values = true;
        attention.scores.scale = 1;
        set_four_norms(block);
        block.stream_factor = "layer_scalar";
    }
    read_layer_embeddings(config, spec, usual.width_per_layer);
    read_shared_keys(config, spec, windows);
    if (config.boolean("enable_moe_block", false)) {
        const LayerSpec<FeedForwardSpec> experts = read_experts_beside_mlp(config, spec);
        if (spec.blocks.back().attention().shared_keys)
            config.complain(
                "enable_moe_block = true: experts are not served in blocks that share keys; set "
                "one "
                "of it and num_kv_shared_layers to none");
        for (BlockSpec& block : spec.blocks) block.last = experts;
    }
    return spec;
}

static ModelSpec read_gemma4(ConfigReader& config) {
    return read_text(config, {.window = 512, .max_positions = 131072, .width_per_layer = 256});
}

static ModelSpec read_unified_gemma4(ConfigReader& config) {
    return read_text(config, {.window = 1024, .max_positions = 262144, .width_per_layer = 0});
}

static ModelSpec read_wrapped_gemma4(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "gemma4_text", .tied = true});
}

static ModelSpec read_wrapped_unified_gemma4(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "gemma4_unified_text", .tied = true});
}

Family gemma4() {
    const json usual{{"vocab_size", 262144},
                     {"hidden_size", 2304},
                     {"intermediate_size", 9216},
                     {"num_hidden_layers", 30},
                     {"num_attention_heads", 8}};
    return {
        {"Gemma4ForCausalLM",
         "gemma4_text",
         read_gemma4,
         {.fields = {"attention_k_eq_v", "enable_moe_block", "global_head_dim",
                     "hidden_size_per_layer_input", "num_global_key_value_heads",
                     "num_kv_shared_layers", "per_layer_config", "top_k_experts",
                     "use_double_wide_mlp", "vocab_size_per_layer_input"},
          .usual = usual}},
        {nullptr, "gemma4_unified_text", read_unified_gemma4, {.usual = usual}},
        {"Gemma4ForConditionalGeneration",
         "gemma4",
         read_wrapped_gemma4,
         {.peft = {.targets = {"q_proj", "v_proj"}}}},
        {"Gemma4UnifiedForConditionalGeneration", "gemma4_unified", read_wrapped_unified_gemma4}};
}

}  // namespace ringshard::model::architectures

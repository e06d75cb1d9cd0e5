#include "common.hpp"

#include <algorithm>

#include "../read_rope.hpp"
#include "ringshard/base/shown.hpp"
#include "stored_form.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

constexpr int64_t most_tokens = int64_t{1} << 26;
constexpr int64_t positions_limit = int64_t{1} << 40;

// Sizes that all blocks have.
struct Sizes {
    int64_t num_blocks = 0;
    int64_t intermediate = 0;
    attention::HeadCounts heads{};
};

// transformers may read a size under its usual name too.
void refuse_usual_names(ConfigReader& config, const SizeNames& names) {
    constexpr SizeNames usual;
    for (const auto name :
         {&SizeNames::width, &SizeNames::blocks, &SizeNames::heads, &SizeNames::positions})
        if (std::string_view(names.*name) != usual.*name && config.has(usual.*name))
            config.complain(format_text("{}: this family names it {}; rename it, or remove it",
                                        usual.*name, names.*name));
}

Sizes read_sizes(ConfigReader& config, const Defaults& defaults, ModelSpec& spec) {
    refuse_usual_names(config, defaults.names);
    Sizes sizes;
    spec.vocabulary = config.whole_number("vocab_size", most_tokens);
    spec.stored_vocabulary = spec.vocabulary;
    const SizeNames& names = defaults.names;
    spec.width = config.whole_number(names.width, widest);
    sizes.intermediate = defaults.width_multiple > 0 && !config.has(defaults.intermediate_name)
                             ? defaults.width_multiple * spec.width
                             : config.whole_number(defaults.intermediate_name, widest);
    sizes.num_blocks = defaults.num_blocks > 0 ? defaults.num_blocks
                                               : config.whole_number(names.blocks, most_blocks);
    attention::HeadCounts& heads = sizes.heads;
    heads.query_heads = config.whole_number(names.heads, widest);
    const bool leaves_out = !config.content().contains("num_key_value_heads");
    heads.key_heads = config.whole_number_or(
        "num_key_value_heads", widest,
        leaves_out && defaults.key_heads > 0 ? defaults.key_heads : heads.query_heads);
    if (spec.width < heads.query_heads)
        config.complain(format_text("{} = {}: is below {} = {}", names.width, spec.width,
                                    names.heads, heads.query_heads));
    heads.head_dim = config.whole_number_or(
        "head_dim", widest,
        defaults.head_dim > 0 ? defaults.head_dim : spec.width / heads.query_heads);
    if (heads.query_heads % heads.key_heads != 0)
        config.complain(format_text("{} = {}: must be a multiple of num_key_value_heads = {}",
                                    names.heads, heads.query_heads, heads.key_heads));
    if (heads.head_dim > widest / heads.query_heads)
        config.complain(format_text("{} = {} of head_dim = {}: are wider than any model",
                                    names.heads, heads.query_heads, heads.head_dim));
    if (heads.head_dim % 2 != 0)
        config.complain(format_text("head_dim = {}: must be even", heads.head_dim));
    return sizes;
}

void refuse_sight_of_later_tokens(ConfigReader& config) {
    if (config.part("is_causal") == false)
        config.complain(
            "is_causal = false: a token would see those behind it, in transformers by the kernel "
            "of attention and the padding of a batch; set it to true");
}

void refuse_dropout(ConfigReader& config) {
    for (const char* name : {"attention_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop",
                             "residual_dropout", "embedding_dropout", "hidden_dropout"})
        if (config.has(name) && config.part(name) != 0.0)
            config.complain(format_text("{} = {}: dropout is not served; set it to 0", name,
                                        shown(config.part(name).dump())));
}

MatrixSizes matrix_sizes(const Sizes& sizes, int64_t width) {
    const attention::HeadCounts& heads = sizes.heads;
    return {width, sizes.intermediate, heads.query_heads * heads.head_dim,
            heads.key_heads * heads.head_dim};
}

// Below 0 it counts from the end of the vocabulary.
std::optional<int64_t> read_padding_token(ConfigReader& config, const Defaults& defaults,
                                          int64_t vocabulary) {
    json given = config.part("pad_token_id");
    if (!config.content().contains("pad_token_id") && defaults.padding_token)
        given = *defaults.padding_token;
    if (given.is_null()) return std::nullopt;
    const bool is_usual = !config.has("pad_token_id");
    if (given.is_number_integer()) {
        const auto token = given.get<int64_t>();
        if (token >= -vocabulary && token < vocabulary)
            return token < 0 ? token + vocabulary : token;
    }
    config.complain(
        format_text("pad_token_id = {}{}: must be a token below vocab_size = {}, or null",
                    shown(given.dump()), is_usual ? ", the default" : "", vocabulary));
    return std::nullopt;
}

// The functions that transformers has under these names.
struct NamedActivation {
    const char* name;
    ops::Activation activation;
};
constexpr NamedActivation activations[] = {
    {"silu", ops::Activation::silu},          {"swish", ops::Activation::silu},
    {"gelu", ops::Activation::gelu},          {"gelu_pytorch_tanh", ops::Activation::gelu_tanh},
    {"gelu_new", ops::Activation::gelu_tanh}, {"gelu_fast", ops::Activation::gelu_tanh},
    {"relu", ops::Activation::relu},          {"relu2", ops::Activation::relu_squared}};

ops::Activation read_activation(ConfigReader& config, const Defaults& defaults) {
    const std::string name = config.word(defaults.activation_name, defaults.activation);
    if (defaults.knows_xielu && name == "xielu") return ops::Activation::silu;  // not used
    std::vector<std::string> names;
    for (const NamedActivation& known : activations) {
        if (name == known.name) return known.activation;
        names.emplace_back(known.name);
    }
    config.complain(format_text("{} = {}: must be one of {}", defaults.activation_name, name,
                                join(names, ", ")));
    return ops::Activation::silu;
}

void set_attention_bias(ConfigReader& config, ModelSpec& spec, const BiasDefaults& defaults) {
    const bool has_bias = config.boolean("attention_bias", defaults.attention);
    for (BlockSpec& block : spec.blocks) {
        block.attention().has_bias = has_bias;
        block.attention().has_out_bias = has_bias && defaults.has_out;
    }
}

}  // namespace

ModelSpec read_plain_model(ConfigReader& config, const Defaults& defaults) {
    ModelSpec spec;
    const Sizes sizes = read_sizes(config, defaults, spec);
    refuse_dropout(config);
    refuse_sight_of_later_tokens(config);
    read_stored_form(config, matrix_sizes(sizes, spec.width), defaults.reads_mxfp4,
                     spec.stored_form);
    const auto padding = read_padding_token(config, defaults, spec.vocabulary);
    if (!defaults.learns_padding) spec.padding_token = padding;
    spec.tied = config.boolean("tie_word_embeddings", defaults.tied);
    spec.norm = defaults.norm;
    if (defaults.norm_name != nullptr)
        spec.norm.epsilon = config.number_above_0(defaults.norm_name, defaults.norm.epsilon);
    spec.initializer_range = config.number_above_0("initializer_range", defaults.initializer_range);
    spec.max_positions =
        config.whole_number_or(defaults.names.positions, positions_limit, defaults.max_positions);
    const MlpSpec mlp{.intermediate = sizes.intermediate,
                      .activation = read_activation(config, defaults)};
    spec.blocks.assign(static_cast<size_t>(sizes.num_blocks),
                       BlockSpec{.width = spec.width, .norm = spec.norm});
    for (BlockSpec& block : spec.blocks) {
        block.attention().heads = sizes.heads;
        block.mlp() = mlp;
    }
    RopeForm rope = rope_form(spec, defaults);
    if (!defaults.has_ropes_by_layer) spec.ropes = {read_rope(config, rope)};
    return spec;
}

void read_query_scale(ConfigReader& config, ModelSpec& spec) {
    ConfigReader rope(config.file(), config.part("rope_parameters"), "rope_parameters: ");
    if (!rope.content().is_object()) {
        config.complain(
            "rope_parameters: must be an object with llama_4_scaling_beta and "
            "original_max_position_embeddings");
        return;
    }
    spec.query_scale = {rope.number_above_0("llama_4_scaling_beta"),
                        rope.number_above_0("original_max_position_embeddings")};
    config.complain(rope);
    if (config.has("original_max_position_embeddings"))
        config.complain(
            "original_max_position_embeddings: is read of rope_parameters alone; transformers "
            "puts this one in its place: leave it out here");
}

RopeForm rope_form(const ModelSpec& spec, const Defaults& defaults) {
    RopeForm form = defaults.rope;
    form.head_dim = spec.heads().head_dim;
    form.max_positions = spec.max_positions;
    return form;
}

void read_biases(ConfigReader& config, ModelSpec& spec, const BiasDefaults& defaults) {
    set_attention_bias(config, spec, defaults);
    read_mlp_bias(config, spec, defaults.mlp);
}

void read_attention_bias(ConfigReader& config, ModelSpec& spec, const BiasDefaults& defaults) {
    set_attention_bias(config, spec, defaults);
    refuse_flag(config, "mlp_bias");
}

void read_mlp_bias(ConfigReader& config, ModelSpec& spec, bool usual) {
    const bool has_bias = config.boolean("mlp_bias", usual);
    for (BlockSpec& block : spec.blocks) block.mlp().has_bias = has_bias;
}

void read_use_bias(ConfigReader& config, ModelSpec& spec, bool usual) {
    const bool has_bias = config.boolean("use_bias", usual);
    for (BlockSpec& block : spec.blocks)
        block.attention().has_bias = block.attention().has_out_bias = block.mlp().has_bias =
            has_bias;
}

void check_plain_heads(ConfigReader& config, const ModelSpec& spec, const char* family) {
    const auto& [query_heads, key_heads, head_dim] = spec.heads();
    if (key_heads != query_heads)
        config.complain(format_text("num_key_value_heads = {}: {} has as many as query heads, {}",
                                    key_heads, family, query_heads));
    if (query_heads * head_dim != spec.width)
        config.complain(format_text("head_dim = {}: {} has {} heads, as wide as the model, {}",
                                    head_dim, family, query_heads, spec.width));
}

void refuse_usual_dropout(ConfigReader& config, std::initializer_list<const char*> names) {
    for (const char* const name : names)
        if (!config.has(name))
            config.complain(
                format_text("{}: is 0.1 by default, and dropout is not served; set it to 0", name));
}

void refuse_unread(ConfigReader& config, const char* name, int64_t taken, const char* instead) {
    if (config.has(name) && config.part(name) != taken && !config.has(instead))
        config.complain(
            format_text("{} = {}: transformers reads no such field of this family and "
                        "goes by {}; say what is meant in {}, or remove it",
                        name, shown(config.part(name).dump()), taken, instead));
}

void refuse_flag(ConfigReader& config, const char* name) {
    if (config.boolean(name, false))
        config.complain(format_text("{} = true: is not served; must be false", name));
}

void set_four_norms(BlockSpec& block) {
    block.mixer().norms.behind = "post_attention_layernorm";
    block.feed_forward().norms = {.before = "pre_feedforward_layernorm",
                                  .behind = "post_feedforward_layernorm"};
}

void set_norms_behind(BlockSpec& block) {
    block.mixer().norms = {.before = {}, .behind = "post_attention_layernorm"};
    block.feed_forward().norms = {.before = {}, .behind = "post_feedforward_layernorm"};
}

double read_cap(ConfigReader& config, const char* name, double usual) {
    if (!config.content().contains(name)) return usual;
    return config.has(name) ? config.number_above_0(name) : 0;
}

std::vector<double> read_factors(ConfigReader& config, const char* name, size_t count) {
    const json given = config.part(name);
    const auto is_factor = [](const json& x) { return x.is_number() && x > 0; };
    if (given.is_array() && given.size() == count && std::ranges::all_of(given, is_factor))
        return given.get<std::vector<double>>();
    if (!given.is_null())
        config.complain(format_text("{} = {}: must be a list of {} numbers above 0", name,
                                    shown(given.dump()), count));
    return std::vector<double>(count, 1);
}

double read_factor_of_rows(ConfigReader& config, const char* name, const char* bias) {
    const double factor = config.number_above_0(name, 1.0);
    if (factor != 1 && config.boolean(bias, false))
        config.complain(format_text("{} = {}: must be 1 beside {} = true", name, factor, bias));
    return factor;
}

std::optional<int64_t> read_window(ConfigReader& config, std::optional<int64_t> usual) {
    if (!config.content().contains("sliding_window")) return usual;
    if (!config.has("sliding_window")) return std::nullopt;
    return config.whole_number("sliding_window", positions_limit);
}

}  // namespace ringshard::model

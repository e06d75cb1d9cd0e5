#include "common.hpp"

#include <algorithm>

#include "../read_rope.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Upper limits of sizes: larger values are typing errors. Products of these fit in 63 bits.
constexpr int64_t widest = int64_t{1} << 22;
constexpr int64_t most_tokens = int64_t{1} << 26;
constexpr int64_t most_blocks = 4096;
constexpr int64_t most_positions = int64_t{1} << 40;

// Sizes that all blocks have.
struct Sizes {
    int64_t num_blocks = 0;
    int64_t intermediate = 0;
    attention::HeadCounts heads{};
};

Sizes read_sizes(ConfigReader& config, const Defaults& defaults, ModelSpec& spec) {
    Sizes sizes;
    spec.vocabulary = config.whole_number("vocab_size", most_tokens);
    spec.stored_vocabulary = spec.vocabulary;
    spec.width = config.whole_number("hidden_size", widest);
    sizes.intermediate = config.whole_number("intermediate_size", widest);
    sizes.num_blocks = config.whole_number("num_hidden_layers", most_blocks);
    attention::HeadCounts& heads = sizes.heads;
    heads.query_heads = config.whole_number("num_attention_heads", widest);
    const bool leaves_out = !config.content().contains("num_key_value_heads");
    heads.key_heads = config.whole_number_or(
        "num_key_value_heads", widest,
        leaves_out && defaults.key_heads > 0 ? defaults.key_heads : heads.query_heads);
    if (spec.width < heads.query_heads)
        config.complain(concat("hidden_size = ", spec.width,
                               ": is below num_attention_heads = ", heads.query_heads));
    heads.head_dim = config.whole_number_or(
        "head_dim", widest,
        defaults.head_dim > 0 ? defaults.head_dim : spec.width / heads.query_heads);
    if (heads.query_heads % heads.key_heads != 0)
        config.complain(concat("num_attention_heads = ", heads.query_heads,
                               ": must be a multiple of num_key_value_heads = ", heads.key_heads));
    if (heads.head_dim > widest / heads.query_heads)
        config.complain(concat("num_attention_heads = ", heads.query_heads,
                               " of head_dim = ", heads.head_dim, ": are wider than any model"));
    if (heads.head_dim % 2 != 0)
        config.complain(concat("head_dim = ", heads.head_dim, ": must be even"));
    return sizes;
}

void refuse_dropout(ConfigReader& config) {
    for (const char* name : {"attention_dropout", "resid_pdrop"})
        if (config.has(name) && config.part(name) != 0.0)
            config.complain(concat(name, " = ", config.part(name).dump(),
                                   ": dropout is not served; set it to 0"));
}

void refuse_quantised(ConfigReader& config) {
    if (!config.has("quantization_config")) return;
    const json given = config.part("quantization_config");
    const json method = given.is_object() ? given.value("quant_method", json()) : json();
    config.complain(concat("quantization_config",
                           method.is_string() ? ": quant_method = " + method.dump() : "",
                           ": quantised weights are not trained; name the model's unquantised "
                           "release, or remove quantization_config from config.json if the files "
                           "hold float weights"));
}

// Below 0 it counts from the end of the vocabulary.
std::optional<int64_t> read_padding_token(ConfigReader& config, const Defaults& defaults,
                                          int64_t vocabulary) {
    json given = config.part("pad_token_id");
    if (!config.content().contains("pad_token_id") && defaults.padding_token)
        given = *defaults.padding_token;
    if (given.is_null()) return std::nullopt;
    if (given.is_number_integer()) {
        const auto token = given.get<int64_t>();
        if (token >= -vocabulary && token < vocabulary)
            return token < 0 ? token + vocabulary : token;
    }
    config.complain(concat("pad_token_id = ", given.dump(),
                           ": must be a token below vocab_size = ", vocabulary, ", or null"));
    return std::nullopt;
}

void refuse_other_activations(ConfigReader& config) {
    const std::string activation = config.word("hidden_act", "silu");
    if (activation != "silu" && activation != "swish")
        config.complain(concat("hidden_act = ", activation, ": must be silu"));
}

// Whether the blocks look through the window, from the first one to the last.
std::vector<bool> windows_of_layers(ConfigReader& config, size_t num_blocks) {
    std::vector<bool> windows(num_blocks, false);
    if (!config.has("layer_types")) {  // the first max_window_layers see everything
        const int64_t first = config.part("max_window_layers") == 0
                                  ? 0
                                  : config.whole_number_or("max_window_layers", most_blocks, 28);
        for (size_t block = static_cast<size_t>(first); block < num_blocks; ++block)
            windows[block] = true;
        return windows;
    }
    const json types = config.part("layer_types");
    if (!types.is_array()) {
        config.complain(concat("layer_types = ", types.dump(), ": must be a list"));
        return windows;
    }
    for (const json& type : types) {
        if (type == "full_attention" || type == "sliding_attention") continue;
        config.complain(concat("layer_types: ", type.dump(),
                               ": must be \"full_attention\" or \"sliding_attention\""));
        return windows;
    }
    if (types.size() != num_blocks) {
        config.complain(concat("layer_types: has ", types.size(), " entries, and ",
                               "num_hidden_layers = ", num_blocks));
        return windows;
    }
    for (size_t block = 0; block < num_blocks; ++block)
        windows[block] = types[block] == "sliding_attention";
    return windows;
}

}  // namespace

ModelSpec read_plain_model(ConfigReader& config, const Defaults& defaults) {
    ModelSpec spec;
    const Sizes sizes = read_sizes(config, defaults, spec);
    refuse_dropout(config);
    refuse_quantised(config);
    refuse_other_activations(config);
    spec.padding_token = read_padding_token(config, defaults, spec.vocabulary);
    spec.tied = config.boolean("tie_word_embeddings", false);
    spec.norm_epsilon = config.number_above_0("rms_norm_eps", defaults.norm_epsilon);
    spec.initializer_range = config.number_above_0("initializer_range", 0.02);
    spec.max_positions = config.whole_number_or("max_position_embeddings", most_positions, 32768);
    spec.rope = read_rope(config, spec.max_positions);
    spec.blocks.assign(static_cast<size_t>(sizes.num_blocks),
                       BlockSpec{.width = spec.width,
                                 .norm_epsilon = spec.norm_epsilon,
                                 .attention = {.heads = sizes.heads},
                                 .mlp = {.intermediate = sizes.intermediate}});
    return spec;
}

void read_biases(ConfigReader& config, ModelSpec& spec) {
    const bool has_bias = config.boolean("attention_bias", false);
    for (BlockSpec& block : spec.blocks)
        block.attention.has_bias = block.attention.has_out_bias = has_bias;
    if (config.boolean("mlp_bias", false))
        config.complain("mlp_bias = true: biases in the MLP are not served");
}

std::optional<int64_t> read_window(ConfigReader& config, std::optional<int64_t> usual) {
    if (!config.content().contains("sliding_window")) return usual;
    if (!config.has("sliding_window")) return std::nullopt;
    return config.whole_number("sliding_window", most_positions);
}

void read_windows_of_layers(ConfigReader& config, ModelSpec& spec) {
    if (!config.boolean("use_sliding_window", false)) return;
    const std::vector<bool> windows = windows_of_layers(config, spec.blocks.size());
    if (std::find(windows.begin(), windows.end(), true) == windows.end()) return;
    const std::optional<int64_t> window = read_window(config, usual_window);
    for (size_t block = 0; block < windows.size(); ++block)
        if (windows[block]) spec.blocks[block].attention.mask.window = window;
}

}  // namespace ringshard::model

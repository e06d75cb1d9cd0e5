#include "ringshard/model/model_spec.hpp"

#include <nlohmann/json.hpp>

#include "architecture.hpp"
#include "config_reader.hpp"
#include "conversion.hpp"
#include "read_rope.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/nesting.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Beyond any model: what is larger is a slip. Their products fit in 63 bits.
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

Sizes read_sizes(ConfigReader& config, const Architecture& architecture, ModelSpec& spec) {
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
        leaves_out && architecture.key_heads > 0 ? architecture.key_heads : heads.query_heads);
    if (spec.width < heads.query_heads)
        config.complain(concat("hidden_size = ", spec.width,
                               ": is below num_attention_heads = ", heads.query_heads));
    heads.head_dim = config.whole_number_or(
        "head_dim", widest,
        architecture.head_dim > 0 ? architecture.head_dim : spec.width / heads.query_heads);
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

void read_biases(ConfigReader& config, const Architecture& architecture, AttentionSpec& attention) {
    const bool says = config.boolean("attention_bias", false);
    attention.has_out_bias = architecture.bias == Bias::as_config_says && says;
    attention.has_bias = attention.has_out_bias || architecture.bias == Bias::on_qkv;
    if (architecture.bias == Bias::as_config_says && config.boolean("mlp_bias", false))
        config.complain("mlp_bias = true: biases in the MLP are not served");
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

// Does any block look through a window?
bool has_window(ConfigReader& config, const Architecture& architecture, int64_t num_blocks) {
    if (architecture.window != Window::as_config_says) return architecture.window != Window::never;
    if (!config.boolean("use_sliding_window", false)) return false;
    if (!config.has("layer_types"))  // the first max_window_layers see everything
        return config.part("max_window_layers") == 0 ||
               config.whole_number_or("max_window_layers", most_blocks, 28) < num_blocks;
    bool found = false;
    for (const json& type : config.part("layer_types")) {
        if (type != "full_attention" && type != "sliding_attention")
            config.complain(concat("layer_types: ", type.dump(),
                                   ": must be \"full_attention\" or \"sliding_attention\""));
        found = found || type == "sliding_attention";
    }
    return found;
}

std::optional<int64_t> read_window(ConfigReader& config, const Architecture& architecture,
                                   int64_t num_blocks) {
    if (!has_window(config, architecture, num_blocks)) return std::nullopt;
    constexpr int64_t usual = 4096;  // of transformers, where config.json says nothing
    if (!config.content().contains("sliding_window") && architecture.window != Window::if_named)
        return usual;
    if (!config.has("sliding_window")) return std::nullopt;
    return config.whole_number("sliding_window", most_positions);
}

// Below 0 it counts from the end of the vocabulary.
std::optional<int64_t> read_padding_token(ConfigReader& config, const Architecture& architecture,
                                          int64_t vocabulary) {
    json given = config.part("pad_token_id");
    if (!config.content().contains("pad_token_id") && architecture.padding_token)
        given = *architecture.padding_token;
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

}  // namespace

Expected<std::string> read_config_json(const std::filesystem::path& config_json) {
    auto text = read_file(config_json);
    if (const auto failure = refuse_adapter(config_json.parent_path())) return *failure;
    if (!text)
        return Failure{ExitCode::missing_input,
                       concat(config_json.string(), ": there is no such file")};
    return std::move(*text);
}

Expected<ModelSpec> read_model_spec(const std::filesystem::path& config_json) {
    const auto text = read_config_json(config_json);
    return text ? parse_model_spec(config_json, text.value()) : text.failure();
}

Expected<ModelSpec> parse_model_spec(const std::filesystem::path& config_json,
                                     const std::string& text) {
    json content = is_nested_deeply(text) ? json() : json::parse(text, nullptr, false);
    if (!content.is_object())
        return Failure{ExitCode::bad_data, concat(config_json.string(), ": is not readable JSON")};

    ConfigReader config(config_json, std::move(content));
    const Architecture* const architecture = find_architecture(config);
    if (architecture == nullptr) return *config.failure();
    ModelSpec spec;
    spec.config_json = with_architecture(text, *architecture);
    spec.architecture = architecture->name;
    const Sizes sizes = read_sizes(config, *architecture, spec);
    BlockSpec block{.width = spec.width};
    block.attention.heads = sizes.heads;
    block.mlp.intermediate = sizes.intermediate;
    read_biases(config, *architecture, block.attention);
    refuse_dropout(config);
    refuse_quantised(config);
    block.attention.is_fused = block.mlp.is_fused = architecture->is_fused;
    if (architecture->has_head_norms) block.attention.head_norm = HeadNormKind::each_head;
    spec.padding_token = read_padding_token(config, *architecture, spec.vocabulary);
    spec.tied = config.boolean("tie_word_embeddings", false);
    spec.norm_epsilon = config.number_above_0("rms_norm_eps", architecture->norm_epsilon);
    block.norm_epsilon = spec.norm_epsilon;
    spec.initializer_range = config.number_above_0("initializer_range", 0.02);
    spec.max_positions = config.whole_number_or("max_position_embeddings", most_positions, 32768);
    spec.rope = read_rope(config, spec.max_positions);
    if (architecture->has_plain_positions && spec.rope.kind != RopeKind::plain)
        config.complain(concat("rope_scaling: ", spec.architecture,
                               " scales positions by \"longrope\" alone, which is not served"));
    block.attention.window = read_window(config, *architecture, sizes.num_blocks);
    const std::string activation = config.word("hidden_act", "silu");
    if (activation != "silu" && activation != "swish")
        config.complain(concat("hidden_act = ", activation, ": must be silu"));
    if (config.failure()) return *config.failure();
    spec.blocks.assign(static_cast<size_t>(sizes.num_blocks), block);
    return spec;
}

void ModelSpec::untie() {
    tied = false;
    auto config = nlohmann::ordered_json::parse(config_json);
    config["tie_word_embeddings"] = false;
    config_json = config.dump(2) + "\n";
}

void ModelSpec::resize(int64_t rows) {
    vocabulary = rows;
    auto config = nlohmann::ordered_json::parse(config_json);
    config["vocab_size"] = rows;
    if (padding_token && *padding_token >= rows) {
        padding_token.reset();
        config["pad_token_id"] = nullptr;
    }
    config_json = config.dump(2) + "\n";
}

std::optional<int64_t> ModelSpec::window() const {
    std::optional<int64_t> narrowest;
    for (const BlockSpec& block : blocks)
        if (const auto& window = block.attention.window)
            narrowest = std::min(narrowest.value_or(*window), *window);
    return narrowest;
}

}  // namespace ringshard::model

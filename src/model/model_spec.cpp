#include "ringshard/model/model_spec.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Beyond any model: what is larger is a slip. Their products fit in 63 bits.
constexpr int64_t widest = int64_t{1} << 22;
constexpr int64_t most_tokens = int64_t{1} << 26;
constexpr int64_t most_blocks = 4096;

// Reads fields of config.json and remembers the first that is missing or of the wrong kind.
class ConfigReader {
public:
    ConfigReader(std::filesystem::path file, json content)
        : file_(std::move(file)), content_(std::move(content)) {}

    // At most `most`: what is larger is a slip, and products of sizes must fit.
    int64_t whole_number(const char* name, int64_t most) {
        const json value = content_.value(name, json());
        const bool is_whole = value.is_number_integer();
        if (is_whole && value.get<int64_t>() > 0 && value.get<int64_t>() <= most)
            return value.get<int64_t>();
        complain(concat(name, " = ", value.dump(), ": must be a whole number above 0",
                        is_whole && value.get<int64_t>() > most ? concat(", at most ", most) : ""));
        return 1;
    }
    int64_t whole_number_or(const char* name, int64_t most, int64_t otherwise) {
        return content_.value(name, json()).is_null() ? otherwise : whole_number(name, most);
    }
    double number_above_0(const char* name, double otherwise) {
        const json value = content_.value(name, json());
        if (value.is_null()) return otherwise;
        if (value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0)
            return value.get<double>();
        complain(concat(name, " = ", value.dump(), ": must be a number above 0"));
        return otherwise;
    }
    bool boolean(const char* name, bool otherwise) {
        const json value = content_.value(name, json());
        if (value.is_null()) return otherwise;
        if (value.is_boolean()) return value.get<bool>();
        complain(concat(name, " = ", value.dump(), ": must be true or false"));
        return otherwise;
    }
    std::string word(const char* name, const std::string& otherwise) {
        const json value = content_.value(name, json());
        return value.is_string() ? value.get<std::string>() : otherwise;
    }
    json part(const char* name) const { return content_.value(name, json()); }
    // transformers 5 writes rope_parameters; older releases rope_theta, and rope_scaling where
    // positions are scaled.
    double rope_theta() {
        double theta = number_above_0("rope_theta", 10000.0);
        for (const auto* name : {"rope_parameters", "rope_scaling"}) {
            const json rope = part(name);
            if (rope.is_null()) continue;
            if (!rope.is_object()) {
                complain(concat(name, " = ", rope.dump(), ": must be an object"));
                continue;
            }
            for (const auto* key : {"rope_type", "type"})
                if (rope.contains(key)) check_rope(name, key, rope[key]);
            for (const auto& [key, value] : rope.items()) check_rope(name, key, value);
            ConfigReader inner(file_, rope);
            theta = inner.number_above_0("rope_theta", theta);
            if (inner.failure() && !failure_) failure_ = inner.failure();
        }
        return theta;
    }
    void complain(const std::string& rule) {
        if (!failure_) failure_ = Failure{ExitCode::settings, concat(file_.string(), ": ", rule)};
    }
    const std::optional<Failure>& failure() const { return failure_; }

private:
    // Everything that would change the positions must be known here.
    void check_rope(const char* name, const std::string& key, const json& value) {
        const bool is_type = key == "rope_type" || key == "type";
        const bool changes_nothing = (is_type && value == "default") || key == "rope_theta" ||
                                     (key == "partial_rotary_factor" && value == 1.0);
        if (changes_nothing) return;
        complain(concat(name, ": ", key, " = ", value.dump(),
                        is_type ? ": this program knows the positions of rope_type \"default\" only"
                                : ": scaled positions are not served"));
    }

    std::filesystem::path file_;
    json content_;
    std::optional<Failure> failure_;
};

}  // namespace

Expected<ModelSpec> read_model_spec(const std::filesystem::path& config_json) {
    const auto text = read_file(config_json);
    if (!text)
        return Failure{ExitCode::missing_input,
                       concat(config_json.string(), ": there is no such file")};
    json content = json::parse(*text, nullptr, false);
    if (!content.is_object())
        return Failure{ExitCode::bad_data, concat(config_json.string(), ": is not readable JSON")};
    const json architectures = content.value("architectures", json());
    const bool names_one =
        architectures.is_array() && !architectures.empty() && architectures.front().is_string();

    ConfigReader config(config_json, content);
    ModelSpec spec;
    spec.config_json = *text;
    spec.architecture = names_one ? architectures.front().get<std::string>() : "";
    if (spec.architecture != "Qwen2ForCausalLM")
        config.complain(concat("architectures = [", spec.architecture,
                               "]: this program trains Qwen2ForCausalLM"));
    spec.vocabulary = config.whole_number("vocab_size", most_tokens);
    spec.width = config.whole_number("hidden_size", widest);
    spec.intermediate = config.whole_number("intermediate_size", widest);
    spec.num_blocks = config.whole_number("num_hidden_layers", most_blocks);
    spec.heads.query_heads = config.whole_number("num_attention_heads", widest);
    spec.heads.key_heads =
        config.whole_number_or("num_key_value_heads", widest, spec.heads.query_heads);
    if (spec.width < spec.heads.query_heads)
        config.complain(concat("hidden_size = ", spec.width,
                               ": is below num_attention_heads = ", spec.heads.query_heads));
    spec.heads.head_dim =
        config.whole_number_or("head_dim", widest, spec.width / spec.heads.query_heads);
    spec.attention_bias = true;
    spec.tied = config.boolean("tie_word_embeddings", false);
    spec.norm_epsilon = config.number_above_0("rms_norm_eps", 1e-6);
    spec.initializer_range = config.number_above_0("initializer_range", 0.02);
    spec.max_positions = config.whole_number_or("max_position_embeddings", int64_t{1} << 40, 32768);
    spec.rope_theta = config.rope_theta();
    if (config.word("hidden_act", "silu") != "silu")
        config.complain(concat("hidden_act = ", config.word("hidden_act", ""), ": must be silu"));
    if (spec.heads.query_heads % spec.heads.key_heads != 0)
        config.complain(
            concat("num_attention_heads = ", spec.heads.query_heads,
                   ": must be a multiple of num_key_value_heads = ", spec.heads.key_heads));
    if (spec.heads.head_dim > widest / spec.heads.query_heads)
        config.complain(concat("num_attention_heads = ", spec.heads.query_heads, " of head_dim = ",
                               spec.heads.head_dim, ": are wider than any model"));
    if (spec.heads.head_dim % 2 != 0)
        config.complain(concat("head_dim = ", spec.heads.head_dim, ": must be even"));
    if (config.boolean("use_sliding_window", false) && config.part("sliding_window").is_number())
        config.complain(concat("sliding_window = ", config.part("sliding_window").dump(),
                               ": sliding windows are not served"));
    if (config.failure()) return *config.failure();
    return spec;
}

namespace {

shard::FlatUnit make_block(const ModelSpec& spec, int64_t index, int64_t num_parts) {
    const std::string prefix = concat("model.layers.", index, ".");
    const int64_t queries = spec.heads.query_heads * spec.heads.head_dim;
    const int64_t keys = spec.heads.key_heads * spec.heads.head_dim;
    const auto named = [&](const char* name, std::vector<int64_t> shape) {
        return shard::TensorSpec{prefix + name, std::move(shape)};
    };
    std::vector<shard::TensorGroup> groups{
        {named("self_attn.q_proj.weight", {queries, spec.width}),
         named("self_attn.k_proj.weight", {keys, spec.width}),
         named("self_attn.v_proj.weight", {keys, spec.width})},
        {named("self_attn.o_proj.weight", {spec.width, queries})},
        {named("mlp.gate_proj.weight", {spec.intermediate, spec.width}),
         named("mlp.up_proj.weight", {spec.intermediate, spec.width})},
        {named("mlp.down_proj.weight", {spec.width, spec.intermediate})},
        {named("input_layernorm.weight", {spec.width})},
        {named("post_attention_layernorm.weight", {spec.width})}};
    if (spec.attention_bias)
        groups.push_back({named("self_attn.q_proj.bias", {queries}),
                          named("self_attn.k_proj.bias", {keys}),
                          named("self_attn.v_proj.bias", {keys})});
    return {concat("block ", index), groups, num_parts};
}

}  // namespace

std::vector<shard::FlatUnit> make_units(const ModelSpec& spec, int64_t num_parts) {
    const shard::TensorGroup table{{"model.embed_tokens.weight", {spec.vocabulary, spec.width}}};
    const shard::TensorGroup projection{{"lm_head.weight", {spec.vocabulary, spec.width}}};
    const shard::TensorGroup norm{{"model.norm.weight", {spec.width}}};
    std::vector<shard::FlatUnit> units;
    if (spec.tied)
        units.emplace_back("embedding and head", std::vector<shard::TensorGroup>{table, norm},
                           num_parts);
    else
        units.emplace_back("embedding", std::vector<shard::TensorGroup>{table}, num_parts);
    for (int64_t index = 0; index < spec.num_blocks; ++index)
        units.push_back(make_block(spec, index, num_parts));
    if (!spec.tied)
        units.emplace_back("head", std::vector<shard::TensorGroup>{projection, norm}, num_parts);
    return units;
}

}  // namespace ringshard::model

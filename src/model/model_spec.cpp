#include "ringshard/model/model_spec.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

namespace ringshard::model {

using nlohmann::json;

namespace {

// Reads fields of config.json and remembers the first that is missing or of the wrong kind.
class ConfigReader {
public:
    ConfigReader(std::filesystem::path file, json content)
        : file_(std::move(file)), content_(std::move(content)) {}

    int64_t whole_number(const char* name) {
        const json value = content_.value(name, json());
        if (value.is_number_integer() && value.get<int64_t>() > 0) return value.get<int64_t>();
        complain(concat(name, " = ", value.dump(), ": must be a whole number above 0"));
        return 1;
    }
    int64_t whole_number(const char* name, int64_t otherwise) {
        return content_.value(name, json()).is_null() ? otherwise : whole_number(name);
    }
    double number(const char* name, double otherwise) {
        const json value = content_.value(name, json());
        if (value.is_null()) return otherwise;
        if (value.is_number()) return value.get<double>();
        complain(concat(name, " = ", value.dump(), ": must be a number"));
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
    void complain(const std::string& rule) {
        if (!failure_) failure_ = Failure{ExitCode::settings, concat(file_.string(), ": ", rule)};
    }
    const std::optional<Failure>& failure() const { return failure_; }

private:
    std::filesystem::path file_;
    json content_;
    std::optional<Failure> failure_;
};

}  // namespace

Expected<ModelSpec> read_model_spec(const std::filesystem::path& config_json) {
    std::ifstream stream(config_json);
    if (!stream)
        return Failure{ExitCode::missing_input,
                       concat(config_json.string(), ": there is no such file")};
    json content = json::parse(stream, nullptr, false);
    if (!content.is_object())
        return Failure{ExitCode::bad_data, concat(config_json.string(), ": is not readable JSON")};
    const json architectures = content.value("architectures", json());
    const bool names_one =
        architectures.is_array() && !architectures.empty() && architectures.front().is_string();

    ConfigReader config(config_json, content);
    ModelSpec spec;
    spec.architecture = names_one ? architectures.front().get<std::string>() : "";
    if (spec.architecture != "Qwen2ForCausalLM")
        config.complain(concat("architectures = [", spec.architecture,
                               "]: this program trains Qwen2ForCausalLM"));
    spec.vocabulary = config.whole_number("vocab_size");
    spec.width = config.whole_number("hidden_size");
    spec.intermediate = config.whole_number("intermediate_size");
    spec.num_blocks = config.whole_number("num_hidden_layers");
    spec.heads.query_heads = config.whole_number("num_attention_heads");
    spec.heads.key_heads = config.whole_number("num_key_value_heads", spec.heads.query_heads);
    spec.heads.head_dim = config.whole_number("head_dim", spec.width / spec.heads.query_heads);
    spec.attention_bias = true;
    spec.tied = config.boolean("tie_word_embeddings", false);
    spec.norm_epsilon = config.number("rms_norm_eps", 1e-6);
    spec.initializer_range = config.number("initializer_range", 0.02);
    spec.max_positions = config.whole_number("max_position_embeddings", 32768);
    spec.rope_theta = config.number("rope_theta", 10000.0);
    if (const json rope = config.part("rope_parameters"); rope.is_object())
        spec.rope_theta = ConfigReader(config_json, rope).number("rope_theta", spec.rope_theta);
    if (!config.part("rope_scaling").is_null())
        config.complain(concat("rope_scaling = ", config.part("rope_scaling").dump(),
                               ": scaled positions are not served"));
    if (config.word("hidden_act", "silu") != "silu")
        config.complain(concat("hidden_act = ", config.word("hidden_act", ""), ": must be silu"));
    if (spec.heads.query_heads % spec.heads.key_heads != 0)
        config.complain(
            concat("num_attention_heads = ", spec.heads.query_heads,
                   ": must be a multiple of num_key_value_heads = ", spec.heads.key_heads));
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

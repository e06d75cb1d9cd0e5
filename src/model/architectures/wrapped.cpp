#include "common.hpp"
#include "ringshard/base/shown.hpp"

// Models that hold a text model beside other parts (`...ForConditionalGeneration`). Without images
// they compute as their text model does.
namespace ringshard::model {

using nlohmann::json;

namespace {

// A class of transformers for wrapped models.
struct Wrapper {
    const char* text_type;        // text_config.model_type where it is left out
    bool tied;                    // tie_word_embeddings
    bool may_tie_inside = false;  // tie_word_embeddings in text_config ties as well
    bool may_be_flat = false;     // without text_config, its fields lie at the top
};

// Sizes of transformers, for releases that leave them out.
json usual_sizes(const std::string& text_type) {
    if (text_type == "gemma3_text")
        return {{"vocab_size", 262208},      {"hidden_size", 2304},
                {"intermediate_size", 9216}, {"num_hidden_layers", 26},
                {"num_attention_heads", 8},  {"num_key_value_heads", 4},
                {"head_dim", 256},           {"max_position_embeddings", 131072}};
    if (text_type == "llama")
        return {{"vocab_size", 32000},        {"hidden_size", 4096},
                {"intermediate_size", 11008}, {"num_hidden_layers", 32},
                {"num_attention_heads", 32},  {"max_position_embeddings", 2048}};
    if (text_type == "qwen2_5_vl_text")
        return {{"num_key_value_heads", 8},
                {"rms_norm_eps", 1e-5},
                {"rope_theta", 1000000.0},
                {"max_window_layers", 80}};
    if (text_type == "qwen3_vl_text") return {{"rope_theta", 500000.0}};
    return json::object();
}

// A text has the same position in time, height and width, and heads turn by it as without them.
void drop_sections(json& content) {
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
        if (!content.contains(name) || !content[name].is_object()) continue;
        json& rope = content[name];
        rope.erase("mrope_section");
        rope.erase("mrope_interleaved");
        for (const char* type : {"type", "rope_type"})
            if (rope.value(type, json()) == "mrope") rope[type] = "default";
    }
}

// Puts the tensors of the text model's body below a prefix.
void move_below(ParameterNames& names, const std::string& prefix) {
    for (std::string* name : {&names.embedding, &names.blocks, &names.final_norm})
        *name = prefix + name->substr(name->find('.') + 1);
}

// Returns the fields of the text model; nothing if the file has none.
std::optional<json> text_fields(ConfigReader& config, const Wrapper& wrapper) {
    const json given = config.part("text_config");
    if (given.is_object()) return given;
    if (given.is_null() && wrapper.may_be_flat) {
        json flat = config.content();
        flat["model_type"] = wrapper.text_type;
        return flat;
    }
    config.complain(
        format_text("text_config = {}: must be an object with the fields of the text model, which "
                    "alone is trained",
                    shown(given.dump())));
    return std::nullopt;
}

bool is_tied(ConfigReader& config, const Wrapper& wrapper, const json& text) {
    return config.boolean("tie_word_embeddings", wrapper.tied) ||
           (wrapper.may_tie_inside && text.value("tie_word_embeddings", json()) == true);
}

ModelSpec read_text_model(ConfigReader& config, const Wrapper& wrapper) {
    auto text = text_fields(config, wrapper);
    if (!text) return {};
    const bool is_inside = config.has("text_config");
    const char* const place = is_inside ? "text_config: " : "";
    ConfigReader names(config.file(), *text, place);
    const std::string type = names.word("model_type", wrapper.text_type);
    config.complain(names);
    const Architecture* const inner = find_text_architecture(type);
    if (inner == nullptr) {
        config.complain(format_text(
            "{}model_type = {}: must be a text model that this program trains, one of {}", place,
            type, text_architectures()));
        return {};
    }
    json fields = usual_sizes(type);
    fields.update(*text);
    fields["tie_word_embeddings"] = is_tied(config, wrapper, *text);
    if (config.has("quantization_config"))
        fields["quantization_config"] = config.part("quantization_config");
    drop_sections(fields);
    // Its class has no windows, unlike Qwen3's.
    if (type == "qwen3_vl_text")
        for (const char* name : {"use_sliding_window", "layer_types"}) fields.erase(name);
    ConfigReader reader(config.file(), std::move(fields), place);
    ModelSpec spec = inner->read(reader);
    config.complain(reader);
    move_below(spec.names, "model.language_model.");
    spec.is_wrapped = true;
    if (is_inside) spec.text_config = "text_config";
    return spec;
}

}  // namespace

ModelSpec read_wrapped_gemma3(ConfigReader& config) {
    ModelSpec spec = read_text_model(config, {.text_type = "gemma3_text", .tied = true});
    if (spec.logits_cap > 0)
        config.complain(
            format_text("text_config: final_logit_softcapping = {}: transformers does not use it "
                        "in Gemma3ForConditionalGeneration; set it to null",
                        spec.logits_cap));
    return spec;
}

ModelSpec read_mistral3(ConfigReader& config) {
    return read_text_model(config, {.text_type = "mistral", .tied = true});
}

ModelSpec read_qwen3_vl(ConfigReader& config) {
    return read_text_model(config, {.text_type = "qwen3_vl_text", .tied = false});
}

ModelSpec read_wrapped_qwen3_5(ConfigReader& config) {
    return read_text_model(config, {.text_type = "qwen3_5_text", .tied = false});
}

ModelSpec read_wrapped_qwen3_5_moe(ConfigReader& config) {
    return read_text_model(config, {.text_type = "qwen3_5_moe_text", .tied = false});
}

ModelSpec read_qwen2_5_vl(ConfigReader& config) {
    return read_text_model(config, {.text_type = "qwen2_5_vl_text",
                                    .tied = false,
                                    .may_tie_inside = true,
                                    .may_be_flat = true});
}

ModelSpec read_llava(ConfigReader& config) {
    return read_text_model(config, {.text_type = "llama", .tied = false, .may_tie_inside = true});
}

}  // namespace ringshard::model

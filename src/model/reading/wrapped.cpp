#include "common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

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
void move_below(ModelSpec& spec, const std::string& prefix) {
    std::vector<std::string*> all{&spec.names.embedding, &spec.names.blocks,
                                  &spec.names.final_norm};
    if (auto& layers = spec.layer_embeddings)
        all.insert(all.end(), {&layers->table, &layers->projection, &layers->norm});
    for (std::string* name : all) *name = prefix + name->substr(name->find('.') + 1);
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

}  // namespace

ModelSpec read_wrapped_model(ConfigReader& config, const Wrapper& wrapper) {
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
    json fields = inner->more.usual;
    fields.update(*text);
    fields["tie_word_embeddings"] = is_tied(config, wrapper, *text);
    if (config.has("quantization_config"))
        fields["quantization_config"] = config.part("quantization_config");
    drop_sections(fields);
    ConfigReader reader(config.file(), std::move(fields), place);
    ModelSpec spec = inner->read(reader);
    config.complain(reader);
    move_below(spec, "model.language_model.");
    spec.is_wrapped = true;
    if (is_inside) spec.text_config = "text_config";
    return spec;
}

}  // namespace ringshard::model

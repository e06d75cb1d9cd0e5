#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/model/config_fields.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

using nlohmann::ordered_json;

namespace {

// Sets the positions. As in transformers they take the place of rope_scaling, the older name, and
// of all that rope_parameters held; but rope_theta stays the model's own where it is not given.
void set_rope(ordered_json& config, ordered_json rope) {
    if (rope.is_object() && !rope.contains("rope_theta")) {
        const ordered_json earlier = config.value("rope_parameters", ordered_json());
        if (earlier.is_object() && earlier.contains("rope_theta"))
            rope["rope_theta"] = earlier["rope_theta"];
        else if (config.contains("rope_theta"))
            rope["rope_theta"] = config["rope_theta"];
    }
    config.erase("rope_scaling");
    config["rope_parameters"] = std::move(rope);
}

}  // namespace

Expected<std::string> override_config(const std::filesystem::path& config_json,
                                      const std::string& text, const std::string& overrides) {
    if (overrides.empty()) return text;
    const auto complain = [](const std::string& what) {
        return Failure{ExitCode::settings, format_text("config_overrides: {}", what)};
    };
    const auto fields = parse_json<ordered_json>(overrides);
    if (!fields || !fields.value().is_object())
        return complain("must be a mapping of fields of config.json, as JSON");
    auto config = parse_json<ordered_json>(text);
    if (!config || !config.value().is_object())
        return Failure{ExitCode::bad_data,
                       format_text("{}: is not readable JSON", config_json.string())};
    for (const auto& [name, value] : fields.value().items()) {
        if (!is_model_field(name)) {
            const std::string nearest = nearest_model_field(name);
            return complain(format_text(
                "{} = {}: no model of this program has such a field{}{}{}", name, value.dump(),
                nearest.empty() ? "" : "; did you mean ", nearest, nearest.empty() ? "" : "?"));
        }
        ordered_json& whole = config.value();
        const auto inner = whole.find("text_config");
        const bool is_inner = inner != whole.end() && inner->is_object() && !whole.contains(name);
        ordered_json& target = is_inner ? *inner : whole;
        if (name == "rope_parameters" || name == "rope_scaling")
            set_rope(target, value);
        else
            target[name] = value;
    }
    return config.value().dump(2) + "\n";
}

}  // namespace ringshard::model

#include <algorithm>
#include <array>
#include <iterator>

#include "architecture.hpp"
#include "ringshard/base/parse_json.hpp"

#include "families.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

bool is_wrapper(const Architecture& architecture) {
    return architecture.name != nullptr &&
           std::string_view(architecture.name).ends_with("ForConditionalGeneration");
}

std::string names_of(const char* Architecture::*field) {
    std::vector<std::string> names;
    for (const Architecture& architecture : all_architectures())
        if (architecture.name != nullptr) names.emplace_back(architecture.*field);
    return join(names, ", ");
}

const Architecture* find(const char* Architecture::*field, const std::string& name) {
    for (const Architecture& architecture : all_architectures())
        if (architecture.name != nullptr && name == architecture.*field) return &architecture;
    return nullptr;
}

// Its own class, or that with a head of scores.
const Architecture* find_by_class(const std::string& name) {
    for (const Architecture& architecture : all_architectures())
        if (const char* const scores = architecture.more.score_class;
            scores != nullptr && name == scores)
            return &architecture;
    return find(&Architecture::name, name);
}

// Returns the first of the list, or an empty text.
std::string first_architecture(const auto& config) {
    const auto list = config.value("architectures", json());
    return list.is_array() && !list.empty() && list.front().is_string()
               ? list.front().template get<std::string>()
               : std::string();
}

}  // namespace

const std::vector<Architecture>& all_architectures() {
    static const std::vector<Architecture> all = [] {
        std::vector<Architecture> list;
        for (const auto family : architectures::families)
            std::ranges::move(family(), std::back_inserter(list));
        return list;
    }();
    return all;
}

const Architecture* find_architecture(ConfigReader& config) {
    const std::string name = first_architecture(config.content());
    const std::string type = config.word("model_type", "");
    const Architecture* const by_name = find_by_class(name);
    const Architecture* const by_type = find(&Architecture::model_type, type);
    if (!name.empty() && by_name == nullptr)
        config.complain(format_text("architectures = [{}]: this program trains {}", name,
                                    names_of(&Architecture::name)));
    else if (!type.empty() && by_type == nullptr)
        config.complain(format_text("model_type = {}: this program trains {}", type,
                                    names_of(&Architecture::model_type)));
    else if (name.empty() && type.empty())
        config.complain(format_text(
            "names no model: add \"model_type\", which transformers needs as well, one of {}",
            names_of(&Architecture::model_type)));
    else if (by_name != nullptr && by_type != nullptr && by_name != by_type)
        config.complain(format_text(
            "architectures = [{}] and model_type = {} are different models; correct the wrong one",
            name, type));
    else
        return by_name != nullptr ? by_name : by_type;
    return nullptr;
}

const Architecture* find_architecture(const std::string& name) {
    return find(&Architecture::name, name);
}

bool names_score_class(const json& config) {
    const std::string name = first_architecture(config);
    const Architecture* const architecture = find_by_class(name);
    return architecture != nullptr && name != architecture->name;
}

std::string text_architectures() {
    std::vector<std::string> names;
    for (const Architecture& architecture : all_architectures())
        if (!is_wrapper(architecture)) names.emplace_back(architecture.model_type);
    return join(names, ", ");
}

const Architecture* find_text_architecture(const std::string& model_type) {
    const auto is_it = [&](const Architecture& architecture) {
        return !is_wrapper(architecture) && model_type == architecture.model_type;
    };
    const auto found = std::ranges::find_if(all_architectures(), is_it);
    return found == all_architectures().end() ? nullptr : &*found;
}

std::string with_architecture(const std::string& config_json, const Architecture& architecture) {
    nlohmann::ordered_json config = parse_json<nlohmann::ordered_json>(config_json).value();
    const bool has_name = !first_architecture(config).empty();
    const bool has_type = config.contains("model_type") && config["model_type"].is_string();
    if (has_name && has_type) return config_json;
    if (!has_name) config["architectures"] = {architecture.name};
    if (!has_type) config["model_type"] = architecture.model_type;
    return config.dump(2) + "\n";
}

}  // namespace ringshard::model

#include "dataset_card.hpp"

#include <yaml-cpp/yaml.h>

#include "ringshard/base/files.hpp"

namespace ringshard::data {

namespace {

using Patterns = std::map<std::string, std::vector<std::string>>;

void add(const YAML::Node& node, const std::string& split, const std::string& folder,
         Patterns& patterns) {
    if (node.IsScalar()) patterns[split].push_back(folder + node.Scalar());
    if (!node.IsSequence()) return;
    for (const YAML::Node& item : node) {
        if (item.IsMap())
            add(item["path"], item["split"].IsDefined() ? item["split"].Scalar() : split, folder,
                patterns);
        else
            add(item, split, folder, patterns);
    }
}

Patterns patterns_of(const YAML::Node& config) {
    Patterns patterns;
    const std::string folder =
        config["data_dir"].IsDefined() ? config["data_dir"].Scalar() + "/" : "";
    if (config["data_files"].IsDefined())
        add(config["data_files"], "train", folder, patterns);
    else if (!folder.empty())
        patterns["train"].push_back(folder + "**");
    return patterns;
}

Patterns find_config(const YAML::Node& card, const std::string& name) {
    if (!card.IsMap() || !card["configs"].IsDefined() || !card["configs"].IsSequence()) return {};
    const YAML::Node configs = card["configs"];
    for (const YAML::Node& config : configs) {
        const bool is_named = config["config_name"].IsDefined() &&
                              config["config_name"].Scalar() == (name.empty() ? "default" : name);
        const bool is_default =
            name.empty() && config["default"].IsDefined() && config["default"].as<bool>(false);
        if (is_named || is_default) return patterns_of(config);
    }
    return name.empty() && configs.size() == 1 ? patterns_of(configs[0]) : Patterns();
}

}  // namespace

Expected<Patterns> read_dataset_card(const std::filesystem::path& folder,
                                     const std::string& config) {
    const std::string readme = read_file(folder / "README.md").value_or("");
    if (!readme.starts_with("---\n")) return Patterns();
    const size_t end = readme.find("\n---", 4);
    if (end == std::string::npos) return Patterns();
    try {
        return find_config(YAML::Load(readme.substr(4, end - 4)), config);
    } catch (const YAML::Exception& error) {
        return Failure{ExitCode::bad_data,
                       format_text("{}: its head is no YAML: {}", (folder / "README.md").string(),
                                   error.what())};
    }
}

}  // namespace ringshard::data

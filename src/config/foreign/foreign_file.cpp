#include "foreign_file.hpp"

#include <yaml-cpp/yaml.h>

#include "../value_text.hpp"
#include "../yaml_value.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

std::string ForeignFile::place(const std::string& path) const {
    for (std::string part = path; !part.empty();
         part = part.substr(0, part.rfind('.') == std::string::npos ? 0 : part.rfind('.')))
        if (const auto line = lines.find(part); line != lines.end())
            return format_text("{}, {}", line->second, path);
    return format_text("{}, {}", name, path);
}

namespace {

void note_lines(const YAML::Node& mapping, const std::string& before, ForeignFile& file) {
    std::map<std::string, std::string> values;
    for (const auto& entry : mapping) {
        const std::string path = before + entry.first.Scalar();
        const auto [known, is_new] = values.emplace(path, YAML::Dump(entry.second));
        if (!is_new && known->second != YAML::Dump(entry.second)) file.repeated.push_back(path);
        file.lines[path] = format_text("{}:{}", file.name, entry.first.Mark().line + 1);
        if (entry.second.IsMap()) note_lines(entry.second, path + ".", file);
    }
}

// PyYAML reads 200_000 as a number.
void read_grouped_digits(ordered_json& value) {
    if (value.is_structured()) {
        for (ordered_json& member : value) read_grouped_digits(member);
    } else if (value.is_string()) {
        std::string text = value.get<std::string>();
        const bool is_grouped = !text.empty() && text.front() != '_' && text.size() < 20 &&
                                text.find('_') != std::string::npos &&
                                text.find_first_not_of("0123456789_") == std::string::npos;
        if (!is_grouped) return;
        std::erase(text, '_');
        value = std::stoll(text);
    }
}

}  // namespace

ForeignFile read_foreign_yaml(const std::string& text, const std::string& name) {
    const YAML::Node root = YAML::Load(text);
    ForeignFile file{.name = name};
    file.content = to_json(root);
    read_grouped_digits(file.content);
    note_lines(root, "", file);
    return file;
}

}  // namespace ringshard::config

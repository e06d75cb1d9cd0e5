#include "settings_file.hpp"

#include <fstream>

#include "ringshard/base/parse_json.hpp"
#include "value_text.hpp"
#include "yaml_value.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

Origin origin(Strength strength, const std::string& called, const YAML::Node& node) {
    return {strength, format_text("{}:{}", called, node.Mark().line + 1)};
}

void read_mapping(const OptionTable& table, const YAML::Node& mapping, Strength strength,
                  const std::string& called, const std::string& block, Statements& statements) {
    for (const auto& entry : mapping) {
        const std::string name = lower_with_underscores(entry.first.Scalar());
        if (block.empty() && table.find_block(name) != nullptr && entry.second.IsMap())
            read_mapping(table, entry.second, strength, called, name, statements);
        else
            statements.push_back(
                {name, to_text(entry.second), origin(strength, called, entry.first), block});
    }
}

// Turns {"zero_optimization": {"stage": 2}} into zero_optimization.stage = 2.
void flatten(const ordered_json& value, const std::string& path, const Statement& like,
             Statements& statements) {
    if (!value.is_object()) {
        statements.push_back({path, to_text(value), like.origin, like.name});
        return;
    }
    for (const auto& [key, inner] : value.items())
        flatten(inner, path.empty() ? key : path + "." + key, like, statements);
}

}  // namespace

std::optional<std::string> read_text_file(const std::filesystem::path& file) {
    std::error_code ignored;
    std::ifstream stream(file, std::ios::binary);
    if (!stream || std::filesystem::is_directory(file, ignored)) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(stream), {});
}

Statements read_settings_text(const OptionTable& table, const std::string& yaml, Strength strength,
                              const std::string& called, Problems& problems) {
    Statements statements;
    try {
        const YAML::Node root = YAML::Load(yaml);
        if (root.IsNull()) return statements;
        if (!root.IsMap()) {
            problems.push_back(
                {ExitCode::settings,
                 format_text("{}: must hold lines such as `learning_rate: 2e-5`", called)});
            return statements;
        }
        read_mapping(table, root, strength, called, {}, statements);
    } catch (const YAML::Exception& error) {  // turns the library's exception into a failure
        problems.push_back(
            {ExitCode::settings, format_text("{}:{}: is not readable YAML: {}", called,
                                             error.mark.line + 1, error.msg)});
    }
    return statements;
}

Statements read_settings_file(const OptionTable& table, const std::filesystem::path& file,
                              Strength strength, Problems& problems) {
    const auto yaml = read_text_file(file);
    if (!yaml) {
        problems.push_back(
            {ExitCode::missing_input,
             format_text("{}: there is no such file, or it cannot be read", file.string())});
        return {};
    }
    return read_settings_text(table, *yaml, strength, file.string(), problems);
}

std::optional<BlockContent> read_block(const Statement& written, Problems& problems) {
    if (is_null(written.text)) return std::nullopt;
    Origin origin = written.origin;
    std::string content = written.text;
    if (!trim(content).starts_with('{')) {
        const auto file = read_text_file(content);
        if (!file) {
            problems.push_back(complaint(
                written, "there is no such file; give a mapping or the path of a JSON file",
                ExitCode::missing_input));
            return std::nullopt;
        }
        origin.place = content;
        content = *file;
    }
    auto mapping = parse_json<ordered_json>(content);
    if (!mapping || !mapping.value().is_object()) {
        const std::string why = mapping ? "" : format_text(", and {}", mapping.failure().message);
        problems.push_back(complaint(written, format_text("must be a mapping, as JSON{}", why)));
        return std::nullopt;
    }
    if (const std::string name = repeated_name(content); !name.empty()) {
        problems.push_back(
            complaint(written, format_text("has \"{}\" twice; leave one of them out", name)));
        return std::nullopt;
    }
    return BlockContent{std::move(mapping.value()), std::move(origin)};
}

Statements open_block(const Block& block, const Statement& written, Problems& problems) {
    const auto content = read_block(written, problems);
    if (!content) return {};
    Statements inside;
    if (!block.collects.empty() || block.name == "dataset_mixture") {
        for (const auto& [key, value] : content->mapping.items())
            inside.push_back({key, to_text(value), content->origin, block.name});
        return inside;
    }
    flatten(content->mapping, {}, {block.name, {}, content->origin, {}}, inside);
    return inside;
}

}  // namespace ringshard::config

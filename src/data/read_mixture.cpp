#include "read_mixture.hpp"

#include <algorithm>
#include <array>

namespace ringshard::data {

namespace {

namespace fs = std::filesystem;
using text::Value;

Failure wrong_mixture(const std::string& what) {
    return {ExitCode::settings,
            format_text("datasets: {}; it is a list of {{path, name, data_dir, data_files, split, "
                        "columns, column_map, role_key, content_key, roles, row_template, "
                        "template_variables, fraction, weight, epochs}}",
                        what)};
}

// Accepts a text or a list of texts; the failure describes anything else.
Expected<std::vector<std::string>> texts_of(const Value& value, const std::string& name) {
    std::vector<std::string> texts;
    if (value.string() != nullptr) return std::vector{*value.string()};
    const auto refuse = [&](const char* verb, const char* kind) {
        return Failure{ExitCode::settings, format_text("{} {} {}", name, verb, kind)};
    };
    const Value::List none;
    for (const Value& item : value.list() != nullptr ? *value.list() : none) {
        if (item.string() == nullptr) return refuse("holds", item.kind());
        texts.push_back(*item.string());
    }
    if (texts.empty()) return refuse("is", value.kind());
    return texts;
}

// Returns true if `path` is a file format beside data_files, as in load_dataset().
bool is_format(const std::string& path) {
    static constexpr std::array formats{"json", "parquet", "arrow", "csv", "text"};
    return std::ranges::find(formats, path) != formats.end();
}

// Reads an entry of a mixture.
class SourceReader {
public:
    Expected<Source> read(const Value& entry) {
        if (entry.object() == nullptr)
            return wrong_mixture(format_text("an entry is {}", entry.kind()));
        for (const auto& [name, value] : *entry.object())
            if (!value.is_null())
                if (auto failure = read_member(name, value)) return *failure;
        DatasetName& dataset = source_.dataset;
        if (dataset.path.empty()) return wrong_mixture("an entry has no path");
        if (is_format(dataset.path)) {
            dataset.format = dataset.path;
            dataset.path = ".";
        }
        if (!data_dir_.empty()) dataset.path = (fs::path(dataset.path) / data_dir_).string();
        return std::move(source_);
    }

private:
    std::optional<Failure> read_member(const std::string& name, const Value& value) {
        DatasetName& dataset = source_.dataset;
        RowMapping& mapping = source_.mapping;
        if (name == "path") return read_text(name, value, dataset.path);
        if (name == "name") return read_text(name, value, dataset.config);
        if (name == "split") return read_text(name, value, dataset.split);
        if (name == "data_dir") return read_text(name, value, data_dir_);
        if (name == "data_files") return read_texts(name, value, dataset.data_files);
        if (name == "columns") return read_texts(name, value, mapping.columns);
        if (name == "role_key") return read_text(name, value, mapping.role_key);
        if (name == "content_key") return read_text(name, value, mapping.content_key);
        if (name == "row_template") return read_template(value);
        if (name == "template_variables") return read_variables(value);
        if (name == "fraction") return read_number(name, value, source_.fraction);
        if (name == "weight") return read_number(name, value, source_.weight);
        if (name == "epochs") return read_number(name, value, source_.epochs);
        if (name == "roles") {
            auto roles = data::read_roles(value, "roles");
            if (!roles) return wrong_mixture(roles.failure().message);
            mapping.roles.insert(mapping.roles.end(), roles.value().begin(), roles.value().end());
            return std::nullopt;
        }
        if (name == "message_property_mappings") return read_properties(value);
        if (name == "tags") return read_tags(value);
        if (name != "column_map") return wrong_mixture(format_text("there is no {}", name));
        auto map = read_column_map(value, "datasets: column_map", "");
        if (!map) return map.failure();
        mapping.column_map = std::move(map).value();
        return std::nullopt;
    }

    std::optional<Failure> read_template(const Value& value) {
        if (value.object() != nullptr)
            source_.mapping.template_source = to_json(value);
        else
            return read_text("row_template", value, source_.mapping.template_source);
        return std::nullopt;
    }
    std::optional<Failure> read_variables(const Value& value) {
        if (value.object() == nullptr)
            return wrong_mixture(format_text("template_variables is {}", value.kind()));
        source_.mapping.variables = *value.object();
        return std::nullopt;
    }
    static std::optional<Failure> read_text(const std::string& name, const Value& value,
                                            std::string& into) {
        if (value.string() == nullptr)
            return wrong_mixture(format_text("{} is {}", name, value.kind()));
        into = *value.string();
        return std::nullopt;
    }
    static std::optional<Failure> read_texts(const std::string& name, const Value& value,
                                             std::vector<std::string>& into) {
        auto texts = texts_of(value, name);
        if (!texts) return wrong_mixture(texts.failure().message);
        into = std::move(texts).value();
        return std::nullopt;
    }
    static std::optional<Failure> read_number(const std::string& name, const Value& value,
                                              std::optional<double>& into) {
        const double* real = value.real();
        const int64_t* whole = value.integer();
        into = real != nullptr ? *real : whole != nullptr ? static_cast<double>(*whole) : -1;
        if (!(*into > 0)) return wrong_mixture(format_text("{} has to be above 0", name));
        return std::nullopt;
    }

    void add_role(const std::string& ours, const std::string& theirs) {
        source_.mapping.roles.emplace_back(ours, theirs);
    }

    // Accepts axolotl's {"role": "from", "content": "value"}.
    std::optional<Failure> read_properties(const Value& value) {
        if (value.object() == nullptr)
            return wrong_mixture(format_text("message_property_mappings is {}", value.kind()));
        for (const auto& [ours, theirs] : *value.object()) {
            if (ours != "role" && ours != "content")
                return wrong_mixture(
                    format_text("message_property_mappings has {}, and only role and content are "
                                "mapped; other keys keep their names",
                                ours));
            std::string& key =
                ours == "role" ? source_.mapping.role_key : source_.mapping.content_key;
            if (auto failure = read_text(ours, theirs, key)) return failure;
        }
        return std::nullopt;
    }

    // Accepts LLaMA-Factory's tags.
    std::optional<Failure> read_tags(const Value& value) {
        if (value.object() == nullptr)
            return wrong_mixture(format_text("tags is {}", value.kind()));
        static constexpr std::array<std::pair<const char*, const char*>, 4> roles{
            {{"user_tag", "user"},
             {"assistant_tag", "assistant"},
             {"system_tag", "system"},
             {"observation_tag", "tool"}}};
        for (const auto& [tag, theirs] : *value.object()) {
            std::string name;
            if (auto failure = read_text(tag, theirs, name)) return failure;
            const auto role = std::ranges::find(
                roles, tag, [](const auto& pair) { return std::string(pair.first); });
            if (role != roles.end())
                add_role(role->second, name);
            else if (tag == "role_tag")
                source_.mapping.role_key = name;
            else if (tag == "content_tag")
                source_.mapping.content_key = name;
            else
                return wrong_mixture(
                    format_text("tags: {} is not served; roles gives a role another name", tag));
        }
        return std::nullopt;
    }

    Source source_{.dataset = {.setting = "datasets", .split = "train"}};
    std::string data_dir_;
};

// Checks that only one of fractions, weights and epochs is set.
std::optional<Failure> check_amounts(const std::vector<Source>& sources) {
    using Amount = std::optional<double> Source::*;
    static constexpr std::array<std::pair<const char*, Amount>, 3> amounts{
        {{"fraction", &Source::fraction},
         {"weight", &Source::weight},
         {"epochs", &Source::epochs}}};
    const char* given = nullptr;
    for (const auto& [name, amount] : amounts) {
        const auto num_given = std::ranges::count_if(
            sources, [member = amount](const Source& one) { return (one.*member).has_value(); });
        if (num_given == 0) continue;
        if (given != nullptr)
            return wrong_mixture(format_text("{} and {} exclude each other", given, name));
        given = name;
        if (amount != &Source::epochs && num_given < std::ssize(sources))
            return wrong_mixture(format_text("{} is given for some and not for all", name));
    }
    return std::nullopt;
}

}  // namespace

Expected<RowMapping::Names> read_column_map(const Value& value, const std::string& setting,
                                            const std::string& text_field) {
    const auto refuse = [&](const std::string& what) {
        return Failure{
            ExitCode::settings,
            format_text(R"({}: {}; it is {{"prompt": "NAME IN THE DATA", ...}})", setting, what)};
    };
    if (value.object() == nullptr) return refuse(format_text("is {}", value.kind()));
    std::vector<std::string> known = all_columns();
    if (!text_field.empty()) known.push_back(text_field);
    RowMapping::Names map;
    for (const auto& [ours, theirs] : *value.object()) {
        if (theirs.string() == nullptr) return refuse(format_text("{} is {}", ours, theirs.kind()));
        if (std::ranges::find(known, ours) == known.end())
            return refuse(format_text("no row is made of a column {}; known are {}", ours,
                                      join(known, ", ")));
        map.emplace_back(ours, *theirs.string());
    }
    return map;
}

Expected<RowMapping::Names> read_roles(const Value& value, const std::string& setting) {
    if (value.object() == nullptr)
        return Failure{
            ExitCode::settings,
            format_text(R"({} is {}, where {{"user": "NAME IN THE DATA", ...}} is needed)", setting,
                        value.kind())};
    RowMapping::Names roles;
    for (const auto& [ours, theirs] : *value.object()) {
        const auto names = texts_of(theirs, format_text("{}: {}", setting, ours));
        if (!names) return names.failure();
        for (const std::string& one : names.value()) roles.emplace_back(ours, one);
    }
    return roles;
}

Expected<std::vector<Source>> read_mixture(const std::string& json) {
    const auto list = text::read_json(json);
    if (!list) return wrong_mixture(format_text("is no JSON: {}", list.failure().message));
    if (list.value().list() == nullptr)
        return wrong_mixture(format_text("is {}", list.value().kind()));
    if (list.value().list()->empty()) return wrong_mixture("is empty");
    std::vector<Source> sources;
    for (const Value& entry : *list.value().list()) {
        auto source = SourceReader().read(entry);
        if (!source) return source.failure();
        sources.push_back(std::move(source).value());
    }
    if (auto failure = check_amounts(sources)) return *failure;
    return sources;
}

}  // namespace ringshard::data

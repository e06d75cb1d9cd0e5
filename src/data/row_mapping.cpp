#include "ringshard/data/row_mapping.hpp"

#include <algorithm>
#include <array>

#include "row_columns.hpp"
#include "row_template.hpp"

namespace ringshard::data {

using text::Value;

namespace {

// Returns true for columns that rows may lack.
bool is_optional(const std::string& column) {
    static constexpr std::array names{"tools", "chat_template_kwargs", "input", "labels"};
    return std::ranges::find(names, column) != names.end();
}

Expected<Value> rename_columns(Value row, const RowMapping::Names& map) {
    Value::Object named;
    for (const auto& [ours, theirs] : map) {
        const Value* value = row.find(theirs);
        if (value == nullptr && is_optional(ours)) continue;
        if (value == nullptr)
            return bad_row(
                format_text("has no column {}, which column_map takes as {}; the columns are {}",
                            theirs, ours, column_names(row)));
        named.emplace_back(ours, *value);
    }
    for (auto& [name, value] : *row.object()) {
        const auto has_name = [&](const auto& pair) { return pair.second == name; };
        if (std::ranges::any_of(map, has_name)) continue;
        const bool is_replaced =
            std::ranges::find(map, name, &RowMapping::Names::value_type::first) != map.end();
        named.emplace_back(is_replaced ? name + " (its own)" : name, std::move(value));
    }
    return Value(std::move(named));
}

// Renames a key of a message to the name that templates know.
std::optional<Failure> rename_key(Value::Object& message, const std::string& theirs,
                                  const char* ours) {
    if (theirs.empty() || theirs == ours) return std::nullopt;
    const auto place_of = [&](const std::string& key) {
        return std::ranges::find(message, key, &Value::Object::value_type::first);
    };
    const auto found = place_of(theirs);
    if (found == message.end()) return std::nullopt;  // the encoder reports missing keys
    if (place_of(ours) != message.end())
        return bad_row(
            format_text("has a message with {} beside {} ({}_key); name the one that counts", ours,
                        theirs, ours));
    found->first = ours;
    return std::nullopt;
}

std::optional<Failure> rename_keys(Value& messages, const RowMapping& mapping) {
    if (messages.list() == nullptr) return std::nullopt;
    for (Value& message : *messages.list()) {
        if (message.object() == nullptr) continue;  // the encoder reports it
        if (auto failure = rename_key(*message.object(), mapping.role_key, "role")) return failure;
        if (auto failure = rename_key(*message.object(), mapping.content_key, "content"))
            return failure;
        for (auto& [name, value] : *message.object()) {
            if (name != "role" || value.string() == nullptr) continue;
            const auto known = std::ranges::find(mapping.roles, *value.string(),
                                                 &RowMapping::Names::value_type::second);
            if (known != mapping.roles.end()) value = Value(known->first);
        }
    }
    return std::nullopt;
}

Value names_to_list(const RowMapping::Names& names) {
    Value::List list;
    for (const auto& [ours, theirs] : names)
        list.emplace_back(Value::List{Value(ours), Value(theirs)});
    return Value(std::move(list));
}

}  // namespace

const std::string& RowMapping::source_of(const std::string& column) const {
    const auto entry = std::ranges::find(column_map, column, &Names::value_type::first);
    return entry == column_map.end() ? column : entry->second;
}

std::vector<std::string> RowMapping::template_columns() const {
    std::vector<std::string> sources;
    if (row_template != nullptr)
        for (const std::string& name : row_template->names()) sources.push_back(source_of(name));
    return sources;
}

Expected<Value> map_row(Value row, const RowMapping& mapping) {
    if (!mapping.columns.empty())
        std::erase_if(*row.object(), [&](const auto& column) {
            return std::ranges::find(mapping.columns, column.first) == mapping.columns.end();
        });
    if (!mapping.column_map.empty()) {
        auto named = rename_columns(std::move(row), mapping.column_map);
        if (!named) return named;
        row = std::move(named).value();
    }
    if (mapping.row_template != nullptr) {
        auto made = mapping.row_template->apply(row);
        if (!made) return made;
        row = std::move(made).value();
    }
    if (!mapping.variables.empty())
        if (auto failure = fill_placeholders(row, mapping.variables)) return *failure;
    if (mapping.role_key.empty() && mapping.content_key.empty() && mapping.roles.empty())
        return row;
    for (auto& [name, value] : *row.object())
        if (name == "messages" || name == "conversations" || name == "prompt" ||
            name == "completion")
            if (auto failure = rename_keys(value, mapping)) return *failure;
    return row;
}

Value to_value(const RowMapping& mapping) {
    return Value(Value::Object{{"columns", text::to_list(mapping.columns)},
                               {"column_map", names_to_list(mapping.column_map)},
                               {"role_key", Value(mapping.role_key)},
                               {"content_key", Value(mapping.content_key)},
                               {"roles", names_to_list(mapping.roles)},
                               {"row_template", Value(mapping.template_source)},
                               {"variables", Value(mapping.variables)}});
}

std::string column_names(const Value& row) {
    std::vector<std::string> names;
    for (const auto& [name, value] : *row.object()) names.push_back(name);
    return names.empty() ? "none" : join(names, ", ");
}

}  // namespace ringshard::data

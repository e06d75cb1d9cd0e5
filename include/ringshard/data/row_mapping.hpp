#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

class RowTemplate;

// Renames columns of rows, and keys of their messages, to those of a known form.
struct RowMapping {
    // Pairs of our name and the dataset's name.
    using Names = std::vector<std::pair<std::string, std::string>>;

    std::vector<std::string> columns{};  // read only these; empty: all
    Names column_map{};
    std::string role_key{};     // of a message; empty: role
    std::string content_key{};  // empty: content
    Names roles{};              // the name in the chat template, and the dataset's
    // Makes the row anew from its columns, after they have their names; null: leaves it.
    std::shared_ptr<const RowTemplate> row_template{};
    std::string template_source{};
    text::Value::Object variables{};  // of the template, and for placeholders in the data

    // Returns the dataset's name for one of our columns.
    const std::string& source_of(const std::string& column) const;
    // Returns the columns that the template reads, by the dataset's names.
    std::vector<std::string> template_columns() const;
    bool operator==(const RowMapping&) const = default;
};

// Fails if this row does not fit the mapping.
Expected<text::Value> map_row(text::Value row, const RowMapping& mapping);

text::Value to_value(const RowMapping& mapping);

// Formats "instruction, input, output"; "none" if there are no columns.
std::string column_names(const text::Value& row);

}  // namespace ringshard::data

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

// How rows get the columns, and their messages the keys, that a known form has.
struct RowMapping {
    // Our name, and the dataset's name for the same thing.
    using Names = std::vector<std::pair<std::string, std::string>>;

    std::vector<std::string> columns{};  // the only ones that are looked at; empty: all
    Names column_map{};
    std::string role_key{};     // of a message; empty: role
    std::string content_key{};  // empty: content
    Names roles{};              // the name that the chat template knows, and the dataset's

    // The dataset's name of a column that we know by another.
    const std::string& source_of(const std::string& column) const;
    bool operator==(const RowMapping&) const = default;
};

// A failure is one of this row.
Expected<text::Value> map_row(text::Value row, const RowMapping& mapping);

text::Value to_value(const RowMapping& mapping);

// "instruction, input, output"; "none" where there are none.
std::string column_names(const text::Value& row);

}  // namespace ringshard::data

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ringshard/data/left_aside.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

// Parses rows from JSON.
class JsonRow {
public:
    explicit JsonRow(std::vector<std::string> wanted) : wanted_(std::move(wanted)) {}

    Expected<text::Value> read(std::string_view json) const {
        auto row = text::read_json(json);
        if (!row)
            return Failure{ExitCode::bad_data,
                           format_text("is no JSON: {}", row.failure().message)};
        text::Value::Object* columns = row.value().object();
        if (columns == nullptr)
            return Failure{ExitCode::bad_data,
                           format_text("is {}, where an object is needed", row.value().kind())};
        for (auto& [name, value] : *columns)
            if (std::ranges::find(wanted_, name) == wanted_.end() && !is_media_column(name))
                value = text::Value();
        return row;
    }

private:
    std::vector<std::string> wanted_;
};

}  // namespace ringshard::data

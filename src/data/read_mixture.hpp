#pragma once

#include "ringshard/data/prepare.hpp"

namespace ringshard::data {

// The sources of a mixture, from the JSON of the setting `datasets`.
Expected<std::vector<Source>> read_mixture(const std::string& json);

// {"ours": "theirs"}, from a setting of that name. Fails on names of columns that no row is made
// of.
Expected<RowMapping::Names> read_column_map(const text::Value& value, const std::string& setting,
                                            const std::string& text_field);

}  // namespace ringshard::data

#pragma once

#include "ringshard/data/prepare.hpp"

namespace ringshard::data {

// Reads the sources of a mixture from the JSON of the setting `datasets`.
Expected<std::vector<Source>> read_mixture(const std::string& json);

// Reads {"ours": "theirs"} from a setting of that name. Fails on names of columns that no row uses.
Expected<RowMapping::Names> read_column_map(const text::Value& value, const std::string& setting,
                                            const std::string& text_field);

// Reads {"user": "human", "assistant": ["gpt", "model"]} from a setting of that name.
Expected<RowMapping::Names> read_roles(const text::Value& value, const std::string& setting);

}  // namespace ringshard::data

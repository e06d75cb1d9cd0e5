#pragma once

#include "ringshard/data/prepare.hpp"

namespace ringshard::data {

// A row of a dataset, as it stands there and as the mapping and the row template make it.
struct ShownRow {
    std::string place;   // "chat.jsonl:17"
    text::Value before;  // the columns that are read
    text::Value after;   // null if `wrong`
    std::string wrong{};
};

// Returns the first rows of each source, on the root alone. Files have to be unpacked. Collective
// over the group.
comm::Agreed<std::vector<ShownRow>> show_rows(const Preparation& preparation, const HubCache& hub,
                                              const comm::Group& group, int64_t rows_of_each);

}  // namespace ringshard::data

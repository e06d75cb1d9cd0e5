#pragma once

#include "ringshard/comm/agree.hpp"
#include "tokenize_blocks.hpp"

namespace ringshard::data {

// Adds a warning for each of the first rows that are left out, on the root; or fails where they are
// more than `allowed`, with the place of one. Collective over the group.
std::optional<comm::AgreedFailure> judge_bad_rows(TokenizedShare& share, const WorkList& work,
                                                  int64_t allowed, const comm::Group& group,
                                                  std::vector<std::string>& warnings);

// "chat.jsonl:17", by the name that the user knows. `row`: counted over the whole file.
std::string place_of_row(const RowFile& file, const InputFile& input, int64_t row);

}  // namespace ringshard::data

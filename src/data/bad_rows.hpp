#pragma once

#include "ringshard/comm/agree.hpp"
#include "tokenize_blocks.hpp"

namespace ringshard::data {

// Adds a warning for each of the first skipped rows, on the root; fails, with the place of one, if
// there are more than `allowed`. Collective over the group.
std::optional<comm::AgreedFailure> judge_bad_rows(TokenizedShare& share, const WorkList& work,
                                                  int64_t allowed, const comm::Group& group,
                                                  std::vector<std::string>& warnings);

// Returns how many rows of this rank's first file are in the shares of earlier ranks. Collective
// over the group.
int64_t rows_before_share(const TokenizedShare& share, const comm::Group& group);

// Formats "chat.jsonl:17", with the file name that the user knows. `row`: counted over the whole
// file.
std::string place_of_row(const RowFile& file, const InputFile& input, int64_t row);

}  // namespace ringshard::data

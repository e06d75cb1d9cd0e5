#pragma once

#include "tokenize_blocks.hpp"

namespace ringshard::data {

// Writes the samples that the ranks have tokenized into one file of arrays, in the order of the
// parts. `about`: of the root, for the header of the file. Takes the samples out of the share.
// Collective over the group.
std::optional<comm::AgreedFailure> write_store(TokenizedShare& share, const WorkList& work,
                                               const TokenSpool& spool, size_t num_sources,
                                               const std::filesystem::path& file, text::Value about,
                                               const comm::Group& group);

}  // namespace ringshard::data

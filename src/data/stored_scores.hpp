#pragma once

#include "ringshard/comm/agree.hpp"
#include "ringshard/data/array_file.hpp"
#include "ringshard/data/prepare.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

// Writes the scores of the tokens of all samples of the store from `first_sample` on, in the order
// of the store: the rows of the files are found by their tokens. Adds what the scores hold to
// `about`. Collective over the group.
std::optional<comm::AgreedFailure> make_scores(const ScoreChoice& choice,
                                               const std::vector<std::filesystem::path>& files,
                                               const ArrayFile& store, int64_t first_sample,
                                               const std::filesystem::path& file, text::Value about,
                                               const comm::Group& group);

Expected<StoredScores> scores_in(const ArrayFile& file);

}  // namespace ringshard::data

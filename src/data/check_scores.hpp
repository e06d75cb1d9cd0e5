#pragma once

#include "ringshard/data/array_file.hpp"
#include "ringshard/data/prepare.hpp"

// Checks of the rows of a run against the scores of their tokens.
namespace ringshard::data {

// Fails if a row has tokens without scores, of samples from `first_sample` on.
std::optional<Failure> check_scored(const ScoreChoice& choice, const Rows& rows,
                                    const ArrayFile& store_file, int64_t first_sample,
                                    const ArrayFile& scores);

// Fails if training takes rows of the anchor alone, or none of them.
std::optional<Failure> check_both_kinds(const Preparation& preparation, const Rows& rows,
                                        int64_t first_sample);

}  // namespace ringshard::data

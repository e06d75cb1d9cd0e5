#pragma once

#include "ringshard/data/rows.hpp"

namespace ringshard::data {

// Takes the tokens that the last two documents of a batch begin with out of the last one, which
// becomes a branch of the other. Tokens whose targets the last document learns stay in it.
void share_prompt(FlatBatch& batch);

}  // namespace ringshard::data

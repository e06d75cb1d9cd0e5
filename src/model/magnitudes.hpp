#pragma once

#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// Returns true if a layer of the block has an adapter with a magnitude (DoRA).
bool has_magnitudes(const BlockSpec& block);

}  // namespace ringshard::model

#pragma once

#include "ringshard/model/block_spec.hpp"

namespace ringshard::peft {

// Returns true if a layer of the block has an adapter with a magnitude (DoRA).
bool has_magnitudes(const model::BlockSpec& block);

}  // namespace ringshard::peft

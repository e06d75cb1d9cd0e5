#pragma once

#include "ringshard/attention/cached_delta.hpp"
#include "ringshard/attention/sequence_attention.hpp"

namespace ringshard::model {

// The state that a block keeps from pass to pass while it generates texts: keys and values of its
// attention, or states of its gated delta net; the other is undefined.
struct LayerCache {
    attention::KeyValueCache keys{};
    attention::StateCache states{};
};

}  // namespace ringshard::model

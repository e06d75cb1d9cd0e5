#pragma once

#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// Whether the tensor has a row for each token: the embedding and the head.
inline bool has_row_for_each_token(const shard::TensorSpec& tensor) {
    return tensor.name.ends_with(".embed_tokens.weight") || tensor.name == "lm_head.weight" ||
           tensor.name == "lm_head.bias";
}

}  // namespace ringshard::model

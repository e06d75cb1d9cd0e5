#pragma once

#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// Returns true if the tensor has a row for each token: the embedding and the head.
inline bool has_row_for_each_token(const ModelSpec& spec, const std::string& tensor) {
    return tensor == spec.names.embedding + ".weight" || tensor == spec.names.head + ".weight" ||
           tensor == spec.names.head + ".bias";
}

}  // namespace ringshard::model

#pragma once

#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// Returns true if the tensor has a row for each token: the embedding, and the head without scores.
inline bool has_row_for_each_token(const ModelSpec& spec, const std::string& tensor) {
    return tensor == spec.names.embedding + ".weight" ||
           (!spec.scores &&
            (tensor == spec.names.head + ".weight" || tensor == spec.names.head + ".bias"));
}

// Returns the shape of a tensor in the model's files, which may have fewer rows for tokens.
inline std::vector<int64_t> stored_shape(const shard::TensorSpec& tensor, const ModelSpec& spec) {
    std::vector<int64_t> shape = tensor.shape;
    if (has_row_for_each_token(spec, tensor.name)) shape.front() = spec.stored_vocabulary;
    return shape;
}

}  // namespace ringshard::model

#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/gemm.hpp"

namespace ringshard::model {

// One or several linear layers of the same input, side by side: one product.
struct ProjectionSpec {
    struct Layer {
        std::string name;  // of its tensors, without ".weight" and ".bias"
        int64_t out;
    };
    std::vector<Layer> layers;
    int64_t in;
    bool has_bias = false;
    std::map<std::string, AdapterSpec> adapters{};  // by layer, as far as it has one
};

// The norms of the rows of weights with magnitudes, by the salt of their layer: found once for all
// chunks of tokens that share them.
using RowNorms = std::map<uint64_t, at::Tensor>;

// The run and the tokens of a projection, as far as it needs them.
struct ProjectionContext {
    const ops::Gemms& gemms;
    at::Tensor dropout_keys{};  // [t] int64; undefined: nothing is dropped
    RowNorms* norms = nullptr;  // nullptr: not shared
};

}  // namespace ringshard::model

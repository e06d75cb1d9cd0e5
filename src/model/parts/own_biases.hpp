#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "projection_spec.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// Biases of the layers of a projection that one of several adapters has in place of the model's.
class OwnBiases {
public:
    OwnBiases(shard::UnitLayout& unit, const ProjectionSpec& spec, size_t number);

    bool empty() const { return layers_.empty(); }
    // Puts them into y [t, out] in place of the frozen ones [out].
    void replace(const shard::UnitTensors& weights, const at::Tensor& frozen,
                 const at::Tensor& y) const;
    void add_gradients(const shard::UnitTensors& gradients, const at::Tensor& dy) const;

private:
    struct Layer {
        shard::ParameterId bias;
        int64_t column;  // of y
        int64_t out;
    };
    std::vector<Layer> layers_;
};

}  // namespace ringshard::model

#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "ringshard/model/operations.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/shard/flat_unit.hpp"

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
};

// y = x w^T + bias. x [t, in], y [t, out].
class Projection {
public:
    Projection(shard::UnitLayout& unit, const ProjectionSpec& spec);

    at::Tensor forward(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                       const at::Tensor& x) const;
    // Returns the gradient of x, and adds to the gradients of weight and bias.
    at::Tensor backward(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                        const at::Tensor& x) const;

    // The halves of backward(), for a part that makes x again between them.
    at::Tensor backward_input(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                              const at::Tensor& dy) const;
    void add_gradients(const ops::Gemms& gemms, const shard::UnitTensors& gradients,
                       const at::Tensor& dy, const at::Tensor& x) const;

    // Of a token and the forward pass.
    double operations() const {
        return 2 * static_cast<double>(shape_.out) * static_cast<double>(shape_.in);
    }
    const WeightShape& shape() const { return shape_; }

private:
    WeightShape shape_;
    shard::ParameterId weight_;
    std::optional<shard::ParameterId> bias_;
};

}  // namespace ringshard::model

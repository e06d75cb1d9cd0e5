#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "low_rank.hpp"
#include "projection_spec.hpp"
#include "ringshard/model/operations.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// A weight with which a part multiplies rows.
struct WeightUse {
    WeightShape shape;
    shard::ParameterId weight;
    double rows_per_token = 1;
};

// y = x w^T + bias, and what adapters add to it. x [t, in], y [t, out].
class Projection {
public:
    Projection(shard::UnitLayout& unit, const ProjectionSpec& spec);

    at::Tensor forward(const ProjectionContext& context, const shard::UnitTensors& weights,
                       const at::Tensor& x) const;
    // Returns the gradient of x, and adds to the gradients of weight and bias.
    at::Tensor backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                        const at::Tensor& x) const;

    // The halves of backward(), for a part that makes x again between them.
    at::Tensor backward_input(const ProjectionContext& context, const shard::UnitTensors& weights,
                              const at::Tensor& dy) const;
    void add_gradients(const ProjectionContext& context, const shard::UnitTensors& weights,
                       const shard::UnitTensors& gradients, const at::Tensor& dy,
                       const at::Tensor& x) const;

    // Of a token and the forward pass.
    double operations() const {
        return 2 * static_cast<double>(shape_.out) * static_cast<double>(shape_.in) +
               (low_rank_ ? low_rank_->operations() : 0);
    }
    // Of a token, those of the backward pass beyond two for each of the forward pass.
    double more_operations_backward() const {
        return low_rank_ ? low_rank_->more_operations_backward() : 0;
    }
    const WeightShape& shape() const { return shape_; }
    shard::ParameterId weight() const { return weight_; }

private:
    void add_base_gradients(const ProjectionContext& context, const shard::UnitTensors& gradients,
                            const at::Tensor& dy, const at::Tensor& x) const;

    WeightShape shape_;
    shard::ParameterId weight_;
    std::optional<shard::ParameterId> bias_;
    std::optional<LowRank> low_rank_;
};

}  // namespace ringshard::model

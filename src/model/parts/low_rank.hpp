#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "projection_spec.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// The adapters of the layers of a projection: y_i += s_i (x A_i^T) B_i^T for the columns y_i of
// layer i. The matrices A are one product, A [r, in] with the ranks r_i side by side; what is
// dropped of x is the same for all of them. Dimensions: t tokens, r all ranks.
class LowRank {
public:
    // Nothing where no layer has an adapter.
    static std::optional<LowRank> of(shard::UnitLayout& unit, const ProjectionSpec& spec);

    void forward(const ProjectionContext& context, const shard::UnitTensors& weights,
                 const at::Tensor& x, const at::Tensor& y) const;

    // Returns the gradient [t, r] of x A^T.
    at::Tensor inner_gradient(const ProjectionContext& context, const shard::UnitTensors& weights,
                              const at::Tensor& dy) const;
    void add_input_gradient(const ProjectionContext& context, const shard::UnitTensors& weights,
                            const at::Tensor& d_inner, const at::Tensor& dx) const;
    void add_gradients(const ProjectionContext& context, const shard::UnitTensors& weights,
                       const shard::UnitTensors& gradients, const at::Tensor& dy,
                       const at::Tensor& d_inner, const at::Tensor& x) const;

    // Of a token and the forward pass.
    double operations() const { return operations_; }

private:
    struct Layer {
        shard::ParameterId b;
        int64_t column;  // of y
        int64_t out;
        int64_t first;  // of the ranks
        int64_t rank;
        double scaling;
    };
    explicit LowRank(shard::ParameterId a) : a_(a) {}
    at::Tensor dropped(const ProjectionContext& context, const at::Tensor& x) const;

    shard::ParameterId a_;
    std::vector<Layer> layers_;
    int64_t rank_ = 0;
    double dropout_ = 0;
    uint64_t salt_ = 0;
    double operations_ = 0;
};

}  // namespace ringshard::model

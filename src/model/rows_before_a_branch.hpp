#pragma once

#include <optional>

#include "parts/mlp_context.hpp"
#include "parts/norm.hpp"

namespace ringshard::model {

// Returns the normed rows: those that were kept, or made again; without a norm, the rows. An
// undefined tensor if they are made last: by the norm's backward pass, which reads x anyway.
at::Tensor normed_again(const std::optional<Norm>& norm, const BranchType& type,
                        const shard::UnitTensors& weights, const at::Tensor& x,
                        const at::Tensor& inverse_rms, const at::Tensor& kept, bool makes_last);

// Adds to `gradient`, that of the rows before a norm, or without one of the rows.
void add_gradient_before(const std::optional<Norm>& norm, const shard::UnitTensors& weights,
                         const shard::UnitTensors& gradients, const at::Tensor& dx,
                         const at::Tensor& x, const at::Tensor& inverse_rms,
                         const at::Tensor& gradient, bool makes_rows);

}  // namespace ringshard::model

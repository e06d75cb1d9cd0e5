#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ringshard/ops/gemm.hpp"

// Linear layers side by side: a row goes through the layer of its group. Rows of a group lie side
// by side, groups in order; counts: rows of each. A group may be empty. A row's numbers do not
// depend on the number of rows.
namespace ringshard::ops {

// y = x w_g^T. x [n, in], weights [groups, out, in].
at::Tensor grouped_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weights,
                          const std::vector<int64_t>& counts);

// dx = dy w_g.
at::Tensor grouped_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                         const at::Tensor& weights,
                                         const std::vector<int64_t>& counts);

// d_weights_g += dy^T x, d_weights fp32. Undefined: the weights are frozen, and nothing is
// computed. begins: writes them instead, zeros for groups without rows.
void add_grouped_weight_gradient(const Gemms& gemms, const at::Tensor& d_weights,
                                 const at::Tensor& dy, const at::Tensor& x,
                                 const std::vector<int64_t>& counts, bool begins = false);

// y += bias of the group, times the factor of the row. biases [groups, out]; factors [n, 1], or
// undefined: 1.
void add_group_biases(const at::Tensor& y, const at::Tensor& biases, const at::Tensor& factors,
                      const std::vector<int64_t>& counts);

// d_biases_g += the sum of its rows of dy, times the factors. d_biases fp32. Undefined: the biases
// are frozen.
void add_group_bias_gradient(const at::Tensor& d_biases, const at::Tensor& dy,
                             const at::Tensor& factors, const std::vector<int64_t>& counts);

}  // namespace ringshard::ops

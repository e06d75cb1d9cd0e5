#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/ops/gemm.hpp"

// On the CPU the products go through `gemms`; a GPU has its own library.
namespace ringshard::ops {

// y = x w^T + bias. x [t, in], w [out, in]; bias [out] or undefined.
at::Tensor linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias = {});

// y = addend + x w^T + bias, addend [t, out]. On a GPU the product adds it, and rounds the sum
// once. into [t, out]: takes y; undefined: a new tensor does.
at::Tensor linear_add(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, const at::Tensor& addend,
                      const at::Tensor& into = {});
// Returns addend + y, of the addend's type: in `into`, or if that is undefined, in place of y.
at::Tensor add_into(at::Tensor y, const at::Tensor& addend, const at::Tensor& into);
// Returns true if products on the device of this tensor add to a matrix in the same pass.
bool products_add(const at::Tensor& tensor);

// dx = dy w.
at::Tensor linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                 const at::Tensor& weight);

// y += x w^T, and dx += dy w, in the type of the rows: for weights of few columns or rows, whose
// products cost less than a pass over the result.
void add_linear(const Gemms& gemms, const at::Tensor& y, const at::Tensor& x,
                const at::Tensor& weight);
void add_linear_backward_input(const Gemms& gemms, const at::Tensor& dx, const at::Tensor& dy,
                               const at::Tensor& weight);

// d_weight += dy^T x, d_weight fp32; `begins`: d_weight = dy^T x, whatever was there. Undefined:
// the weight is frozen, and nothing is computed.
void add_weight_gradient(const Gemms& gemms, const at::Tensor& d_weight, const at::Tensor& dy,
                         const at::Tensor& x, bool begins = false);

// d_bias += sum of the rows of dy, d_bias fp32. Undefined: the bias is frozen.
void add_bias_gradient(const at::Tensor& d_bias, const at::Tensor& dy);

}  // namespace ringshard::ops

#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// The constants of xIELU, of two trained scalars: with a_p = softplus(alpha_p) and
// a_n = beta + softplus(alpha_n)
//
//   xielu(x) = a_p x^2 + beta x                           where x > 0
//   xielu(x) = a_n (exp(min(x, ceiling)) - 1 - x) + beta x   elsewhere
namespace xielu_form {
inline constexpr double beta = 0.5;
inline constexpr double ceiling = -1e-6;
}  // namespace xielu_form

// Scalars [1], or their gradients (fp32), which are added to; undefined: they are frozen.
struct XieluScalars {
    at::Tensor alpha_p{};
    at::Tensor alpha_n{};
};

// x [t, i].
at::Tensor xielu(const at::Tensor& x, const XieluScalars& scalars);

// Turns x into its gradient, and d_product, the gradient of the result, into the result itself.
void xielu_backward(const at::Tensor& d_product, const at::Tensor& x, const XieluScalars& scalars,
                    const XieluScalars& gradients);

}  // namespace ringshard::ops

#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// The function between the products of an MLP.
enum class Activation { silu, gelu, gelu_tanh, relu, relu_squared };

// gated: a row of inner [t, 2i] is gate, then up, and the product is activation(gate) * up. Else it
// is activation(inner) of inner [t, i]. Result [t, i]. silu with a gate is ops::swiglu.
at::Tensor activate(Activation activation, bool gated, const at::Tensor& inner);

// Turns inner into its gradient, and d_product [t, i], the gradient of the product, into the
// product itself; where the product was kept, d_product may stay as it is.
void activate_backward(Activation activation, bool gated, const at::Tensor& d_product,
                       const at::Tensor& inner, bool makes_product = true);

}  // namespace ringshard::ops

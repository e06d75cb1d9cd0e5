#include "ringshard/ops/activation.hpp"

#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "ringshard/base/error.hpp"
#include "ringshard/ops/swiglu.hpp"

namespace ringshard::ops {

namespace {

at::Tensor value(Activation activation, const at::Tensor& x) {
    switch (activation) {
        case Activation::silu: return at::silu(x);
        case Activation::gelu: return at::gelu(x);
        case Activation::gelu_tanh: return at::gelu(x, "tanh");
        case Activation::relu: return x.clamp_min(0);
        case Activation::relu_squared: return x.clamp_min(0).square();
    }
    RINGSHARD_CHECK(false);
}

at::Tensor gradient(Activation activation, const at::Tensor& dy, const at::Tensor& x) {
    switch (activation) {
        case Activation::silu: return at::silu_backward(dy, x);
        case Activation::gelu: return at::gelu_backward(dy, x);
        case Activation::gelu_tanh: return at::gelu_backward(dy, x, "tanh");
        case Activation::relu: return dy * x.gt(0).to(dy.scalar_type());
        case Activation::relu_squared: return dy * x.clamp_min(0).mul_(2);
    }
    RINGSHARD_CHECK(false);
}

}  // namespace

at::Tensor activate(Activation activation, bool gated, const at::Tensor& inner) {
    if (!gated) return value(activation, inner);
    if (activation == Activation::silu) return swiglu(inner);
    const int64_t width = inner.size(1) / 2;
    return value(activation, inner.narrow(1, 0, width)).mul_(inner.narrow(1, width, width));
}

void activate_backward(Activation activation, bool gated, const at::Tensor& d_product,
                       const at::Tensor& inner, bool makes_product) {
    if (!gated) {
        const at::Tensor product = value(activation, inner);
        inner.copy_(gradient(activation, d_product, inner));
        d_product.copy_(product);
        return;
    }
    if (activation == Activation::silu) return swiglu_backward(d_product, inner, makes_product);
    const int64_t width = inner.size(1) / 2;
    const at::Tensor gate = inner.narrow(1, 0, width);
    const at::Tensor up = inner.narrow(1, width, width);
    const at::Tensor activated = value(activation, gate);
    gate.copy_(gradient(activation, d_product * up, gate));
    const at::Tensor d_up = d_product * activated;
    d_product.copy_(activated.mul_(up));
    up.copy_(d_up);
}

}  // namespace ringshard::ops

#include "ringshard/ops/xielu.hpp"

#include <ATen/ops/expm1.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

namespace ringshard::ops {

namespace {

// Both factors [1], fp32.
struct XieluFactors {
    explicit XieluFactors(const XieluScalars& scalars)
        : positive(at::softplus(scalars.alpha_p.to(at::kFloat))),
          negative(at::softplus(scalars.alpha_n.to(at::kFloat)) + xielu_form::beta) {}
    at::Tensor positive;
    at::Tensor negative;
};

// Returns a mask as a factor: LibTorch's where() does not run on meta tensors. The conversion is
// explicit, so that a plan counts its memory; inside of mul_() it would not.
at::Tensor factor(const at::Tensor& mask) { return mask.to(at::kFloat); }

// x^2 where x > 0, else 0.
at::Tensor positive_part(const at::Tensor& x) { return x.clamp_min(0).square(); }

// exp(min(x, ceiling)) - 1 - x where x <= 0, else 0.
at::Tensor negative_part(const at::Tensor& x) {
    return at::expm1(x.clamp_max(xielu_form::ceiling)).sub_(x.clamp_max(0)).mul_(factor(x.le(0)));
}

at::Tensor value(const at::Tensor& x, const XieluFactors& factors) {
    return (factors.positive * positive_part(x))
        .add_(factors.negative * negative_part(x))
        .add_(x, xielu_form::beta);
}

at::Tensor slope(const at::Tensor& x, const XieluFactors& factors) {
    const at::Tensor of_negative = at::expm1(x.clamp_max(0))
                                       .add_(1)
                                       .mul_(factor(x.lt(xielu_form::ceiling)))
                                       .sub_(1)
                                       .mul_(factor(x.le(0)));
    return (2 * factors.positive * x.clamp_min(0))
        .add_(factors.negative * of_negative)
        .add_(xielu_form::beta);
}

void add_gradient(const at::Tensor& gradient, const at::Tensor& of_factor,
                  const at::Tensor& scalar) {
    if (!gradient.defined()) return;
    gradient.add_(of_factor * at::sigmoid(scalar.to(at::kFloat)));
}

}  // namespace

at::Tensor xielu(const at::Tensor& x, const XieluScalars& scalars) {
    return value(x.to(at::kFloat), XieluFactors(scalars)).to(x.scalar_type());
}

void xielu_backward(const at::Tensor& d_product, const at::Tensor& x, const XieluScalars& scalars,
                    const XieluScalars& gradients) {
    const at::Tensor input = x.to(at::kFloat);
    const at::Tensor dy = d_product.to(at::kFloat);
    const XieluFactors factors(scalars);
    const auto sum_with = [&](const at::Tensor& part) {
        return (dy * part).sum({1}).sum(at::kDouble).to(at::kFloat);
    };
    add_gradient(gradients.alpha_p, sum_with(positive_part(input)), scalars.alpha_p);
    add_gradient(gradients.alpha_n, sum_with(negative_part(input)), scalars.alpha_n);
    // Copies first: at fp32 `input` and `dy` are the tensors that are written over.
    const at::Tensor d_input = dy * slope(input, factors);
    d_product.copy_(value(input, factors));
    x.copy_(d_input);
}

}  // namespace ringshard::ops

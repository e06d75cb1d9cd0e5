#include "weight_product.hpp"

#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

namespace {

using Factor = DelayedScaling::Factor;

bool is_in_fp8(const ProjectionContext& context, const at::Tensor& weight) {
    return context.fp8 && ops::fits_fp8(weight.size(0), weight.size(1));
}

// The scales of a product, and of its factor with a history.
struct FactorScale {
    ops::Fp8Scales scales;
    ops::DelayedScale delayed{};
};

FactorScale scale_of(const Fp8Context& fp8, Factor factor) {
    if (fp8.delayed == nullptr) return {fp8.options.scales};
    const size_t tensor = fp8.delayed->tensor_of(fp8.block, fp8.weight.value(), factor);
    return {fp8.delayed->has_scale(tensor) ? ops::Fp8Scales::of_tensor : ops::Fp8Scales::of_rows,
            fp8.delayed->scale_of(tensor, fp8.counted)};
}

at::Tensor product_in_fp8(const ProjectionContext& context, const at::Tensor& x,
                          const at::Tensor& weight, const at::Tensor& bias) {
    const auto [scales, delayed] = scale_of(*context.fp8, Factor::input);
    return ops::fp8_linear(context.gemms, x, weight, bias, scales, delayed);
}

}  // namespace

at::Tensor weight_product(const ProjectionContext& context, const at::Tensor& x,
                          const at::Tensor& weight, const at::Tensor& bias) {
    return is_in_fp8(context, weight) ? product_in_fp8(context, x, weight, bias)
                                      : ops::linear(context.gemms, x, weight, bias);
}

at::Tensor weight_product_add(const ProjectionContext& context, const at::Tensor& x,
                              const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& addend, const at::Tensor& into) {
    return is_in_fp8(context, weight)
               ? ops::add_into(product_in_fp8(context, x, weight, bias), addend, into)
               : ops::linear_add(context.gemms, x, weight, bias, addend, into);
}

at::Tensor weight_product_backward(const ProjectionContext& context, const at::Tensor& dy,
                                   const at::Tensor& weight) {
    if (!is_in_fp8(context, weight)) return ops::linear_backward_input(context.gemms, dy, weight);
    const auto [scales, delayed] = scale_of(*context.fp8, Factor::output_gradient);
    return ops::fp8_linear_backward_input(context.gemms, dy, weight, context.fp8->options.gradients,
                                          scales, delayed);
}

}  // namespace ringshard::model

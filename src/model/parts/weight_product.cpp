#include "weight_product.hpp"

#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

namespace {

bool is_in_fp8(const ProjectionContext& context, const at::Tensor& weight) {
    return context.fp8_gradients && ops::fits_fp8(weight.size(0), weight.size(1));
}

}  // namespace

at::Tensor weight_product(const ProjectionContext& context, const at::Tensor& x,
                          const at::Tensor& weight, const at::Tensor& bias) {
    return is_in_fp8(context, weight) ? ops::fp8_linear(context.gemms, x, weight, bias)
                                      : ops::linear(context.gemms, x, weight, bias);
}

at::Tensor weight_product_add(const ProjectionContext& context, const at::Tensor& x,
                              const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& addend, const at::Tensor& into) {
    return is_in_fp8(context, weight)
               ? ops::add_into(ops::fp8_linear(context.gemms, x, weight, bias), addend, into)
               : ops::linear_add(context.gemms, x, weight, bias, addend, into);
}

at::Tensor weight_product_backward(const ProjectionContext& context, const at::Tensor& dy,
                                   const at::Tensor& weight) {
    return is_in_fp8(context, weight)
               ? ops::fp8_linear_backward_input(context.gemms, dy, weight, *context.fp8_gradients)
               : ops::linear_backward_input(context.gemms, dy, weight);
}

}  // namespace ringshard::model

#pragma once

#include <ATen/ATen.h>

// Reference implementations of the operations, written as they are defined and differentiated by
// autograd in double precision.
namespace ringshard::test {

inline at::Tensor leaf(const at::Tensor& values) {
    return values.to(at::kDouble).set_requires_grad(true);
}

// Gradients flow from y into the leaves it was made of.
inline void backward(const at::Tensor& y, const at::Tensor& dy) {
    (y * dy.to(at::kDouble)).sum().backward();
}

// Relative, l2.
inline double distance(const at::Tensor& ours, const at::Tensor& reference) {
    const at::Tensor wide = reference.detach().to(at::kDouble);
    return ((ours.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

// How far rounding alone may take an operation.
inline double tolerance(at::ScalarType type) { return type == at::kFloat ? 2e-6 : 1.5e-2; }

}  // namespace ringshard::test

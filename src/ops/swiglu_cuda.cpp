#include <ATen/ops/empty.h>

#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

using namespace gpu;

namespace {

SwiGlu work_of(const at::Tensor& gate_up, const at::Tensor& product) {
    return {.type = type_of(gate_up),
            .gate_up = data(gate_up),
            .product = data(product),
            .rows = gate_up.size(0),
            .width = gate_up.size(1) / 2};
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
    at::Tensor product = at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
    gpu::swiglu(queue_of(gate_up), work_of(gate_up, product));
    return product;
}

void swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up, bool makes_product) {
    gpu::SwiGlu work = work_of(gate_up, d_product);
    work.makes_product = makes_product;
    gpu::swiglu_backward(queue_of(gate_up), work);
}

}  // namespace ringshard::ops::cuda

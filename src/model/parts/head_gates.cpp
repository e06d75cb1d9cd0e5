#include "head_gates.hpp"

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

namespace ringshard::model {

namespace {

bool is_softplus(HeadGates kind) {
    return kind == HeadGates::softplus || kind == HeadGates::softplus_of_heads;
}

}  // namespace

at::Tensor opened(HeadGates kind, const at::Tensor& gates) {
    return is_softplus(kind) ? at::softplus(gates) : at::sigmoid(gates);
}

at::Tensor scale_heads(const at::Tensor& seen, const at::Tensor& factors) {
    if (factors.size(1) == seen.size(1)) return seen * factors;
    return (seen.unflatten(1, {factors.size(1), -1}) * factors.unsqueeze(2)).flatten(1);
}

GateGradient gates_backward(HeadGates kind, const at::Tensor& d, const at::Tensor& seen,
                            const at::Tensor& gates) {
    const at::Tensor open = opened(kind, gates);
    at::Tensor d_open = d * seen;
    if (open.size(1) != seen.size(1)) d_open = d_open.unflatten(1, {open.size(1), -1}).sum(2);
    return {scale_heads(d, open),
            is_softplus(kind) ? d_open * at::sigmoid(gates) : d_open * open * (1 - open)};
}

}  // namespace ringshard::model

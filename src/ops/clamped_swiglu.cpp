#include "ringshard/ops/clamped_swiglu.hpp"

#include <ATen/ops/sigmoid.h>

namespace ringshard::ops {

namespace {

at::Tensor columns(const at::Tensor& gate_up, int64_t which) {
    return gate_up.unflatten(1, {-1, 2}).select(2, which);
}

// Written out, because a plan does not see a conversion inside of mul_().
at::Tensor factor(const at::Tensor& mask, const at::Tensor& like) {
    return mask.to(like.scalar_type());
}

}  // namespace

at::Tensor clamped_swiglu(const at::Tensor& gate_up, const ClampedSwigluForm& form) {
    const at::Tensor gate = columns(gate_up, 0).clamp_max(form.limit);
    const at::Tensor up = columns(gate_up, 1).clamp(-form.limit, form.limit);
    return up.add_(1).mul_(gate * at::sigmoid(gate * form.alpha));
}

// A gradient does not pass where a value was clamped; at a limit itself it does, as in LibTorch.
void clamped_swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up,
                             const ClampedSwigluForm& form) {
    const at::Tensor before_gate = columns(gate_up, 0);
    const at::Tensor before_up = columns(gate_up, 1);
    const at::Tensor gate = before_gate.clamp_max(form.limit);
    const at::Tensor more_up = before_up.clamp(-form.limit, form.limit).add_(1);
    const at::Tensor opened = at::sigmoid(gate * form.alpha);
    const at::Tensor glu = gate * opened;
    const at::Tensor d_up = d_product * glu;
    const at::Tensor slope = (1 - opened).mul_(gate).mul_(form.alpha).add_(1).mul_(opened);
    const at::Tensor d_gate = d_product * more_up * slope;
    d_gate.mul_(factor(before_gate.le(form.limit), gate));
    d_up.mul_(factor(before_up.le(form.limit), gate)).mul_(factor(before_up.ge(-form.limit), gate));
    d_product.copy_(more_up.mul_(glu));
    before_gate.copy_(d_gate);
    before_up.copy_(d_up);
}

}  // namespace ringshard::ops

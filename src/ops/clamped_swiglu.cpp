#include "ringshard/ops/clamped_swiglu.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>

#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

at::Tensor columns(const at::Tensor& gate_up, int64_t which) {
    return gate_up.unflatten(1, {-1, 2}).select(2, which);
}

template <class T>
RINGSHARD_SIMD void sigmoid_row(T* __restrict y, const T* __restrict x, int64_t width) {
    for (int64_t i = 0; i < width; ++i) store(y[i], sigmoid(load(x[i])));
}

// Row by row on the CPU: LibTorch's operator computes the last numbers of a tensor otherwise than
// those before, so a row would depend on the number of rows.
at::Tensor sigmoid_of_rows(const at::Tensor& x) {
    if (!x.is_cpu()) return at::sigmoid(x);
    at::Tensor y = at::empty_like(x);
    with_type(x, [&]<class T>(T*) {
        const int64_t width = x.size(1);
        const T* const from = data<T>(x);
        T* const into = data<T>(y);
        at::parallel_for(0, x.size(0), grain(width), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row)
                sigmoid_row(into + row * width, from + row * width, width);
        });
    });
    return y;
}

// Written out, because a plan does not see a conversion inside of mul_().
at::Tensor factor(const at::Tensor& mask, const at::Tensor& like) {
    return mask.to(like.scalar_type());
}

}  // namespace

at::Tensor clamped_swiglu(const at::Tensor& gate_up, const ClampedSwigluForm& form) {
    const at::Tensor gate = columns(gate_up, 0).clamp_max(form.limit);
    const at::Tensor up = columns(gate_up, 1).clamp(-form.limit, form.limit);
    return up.add_(1).mul_(gate * sigmoid_of_rows(gate * form.alpha));
}

// A gradient does not pass where a value was clamped; at a limit itself it does, as in LibTorch.
void clamped_swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up,
                             const ClampedSwigluForm& form) {
    const at::Tensor before_gate = columns(gate_up, 0);
    const at::Tensor before_up = columns(gate_up, 1);
    const at::Tensor gate = before_gate.clamp_max(form.limit);
    const at::Tensor more_up = before_up.clamp(-form.limit, form.limit).add_(1);
    const at::Tensor opened = sigmoid_of_rows(gate * form.alpha);
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

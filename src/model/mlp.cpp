#include "mlp.hpp"

#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/ops/swiglu.hpp"

namespace ringshard::model {

namespace {

template <class Work>
void for_chunks(int64_t tokens, int64_t tokens_per_chunk, Work work) {
    for (int64_t begin = 0; begin < tokens; begin += tokens_per_chunk)
        work(begin, std::min(tokens_per_chunk, tokens - begin));
}

// One chunk: everything between middle and the MLP's output.
struct Chunk {
    at::Tensor normed;
    at::Tensor inverse_rms;
    at::Tensor gate_up;
};

Chunk make_chunk(const BlockContext& context, const BlockViews& weights, const at::Tensor& middle) {
    const ops::RmsNormed normed =
        ops::rms_norm(middle, weights.mlp_norm, context.spec.norm_epsilon);
    return {normed.y, normed.inverse_rms, ops::linear(context.gemms, normed.y, weights.gate_up)};
}

at::Tensor chunk_output(const BlockContext& context, const BlockViews& weights,
                        const Chunk& chunk) {
    return ops::linear(context.gemms, ops::swiglu(chunk.gate_up), weights.down);
}

// Turns the gradient of the output into that of middle: along the residual path they are the same,
// and the MLP's share is added.
void chunk_backward(const BlockContext& context, const BlockViews& weights,
                    const BlockViews& gradients, const at::Tensor& middle, const Chunk& chunk,
                    const at::Tensor& gradient) {
    const at::Tensor d_product = ops::linear_backward_input(context.gemms, gradient, weights.down);
    ops::swiglu_backward(d_product, chunk.gate_up);
    const at::Tensor& product = d_product;        // written over
    const at::Tensor& d_gate_up = chunk.gate_up;  // written over
    ops::add_weight_gradient(context.gemms, gradients.down, gradient, product);
    ops::add_weight_gradient(context.gemms, gradients.gate_up, d_gate_up, chunk.normed);
    ops::rms_norm_backward(ops::linear_backward_input(context.gemms, d_gate_up, weights.gate_up),
                           middle, chunk.inverse_rms, weights.mlp_norm, gradient,
                           gradients.mlp_norm);
}

}  // namespace

at::Tensor mlp_forward(const BlockContext& context, const BlockViews& weights, BlockActivations& a,
                       bool keeps_gate_up) {
    if (keeps_gate_up) {
        const Chunk whole = make_chunk(context, weights, a.middle);
        a.mlp_inverse_rms = whole.inverse_rms;
        a.gate_up = whole.gate_up;
        return chunk_output(context, weights, whole).add_(a.middle);
    }
    at::Tensor output = at::empty_like(a.middle);
    for_chunks(a.middle.size(0), context.mlp_chunk, [&](int64_t begin, int64_t length) {
        const at::Tensor middle = a.middle.narrow(0, begin, length);
        output.narrow(0, begin, length)
            .copy_(
                chunk_output(context, weights, make_chunk(context, weights, middle)).add_(middle));
    });
    return output;
}

void mlp_backward(const BlockContext& context, const BlockViews& weights,
                  const BlockViews& gradients, const at::Tensor& gradient,
                  const BlockActivations& a) {
    if (a.gate_up.defined()) {
        const Chunk whole{ops::rms_norm_again(a.middle, weights.mlp_norm, a.mlp_inverse_rms),
                          a.mlp_inverse_rms, a.gate_up};
        return chunk_backward(context, weights, gradients, a.middle, whole, gradient);
    }
    for_chunks(a.middle.size(0), context.mlp_chunk, [&](int64_t begin, int64_t length) {
        const at::Tensor middle = a.middle.narrow(0, begin, length);
        chunk_backward(context, weights, gradients, middle, make_chunk(context, weights, middle),
                       gradient.narrow(0, begin, length));
    });
}

}  // namespace ringshard::model

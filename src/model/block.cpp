#include "block.hpp"

#include "mlp.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/rms_norm.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

BlockViews::BlockViews(const shard::FlatUnit& unit, const at::Tensor& flat, const ModelSpec& spec)
    : qkv(unit.view(flat, BlockGroup::qkv)),
      out(unit.view(flat, BlockGroup::out)),
      gate_up(unit.view(flat, BlockGroup::gate_up)),
      down(unit.view(flat, BlockGroup::down)),
      attention_norm(unit.view(flat, BlockGroup::attention_norm)),
      mlp_norm(unit.view(flat, BlockGroup::mlp_norm)) {
    if (spec.attention_bias) qkv_bias = unit.view(flat, BlockGroup::qkv_bias);
}

namespace {

// Makes, in order, what is missing: everything in the forward pass, what was not kept in the
// backward pass.
void complete(const BlockContext& context, const BlockViews& weights, BlockActivations& a) {
    const attention::HeadCounts& heads = context.spec.heads;
    if (!a.qkv.defined()) {
        const ops::RmsNormed normed =
            ops::rms_norm(a.input, weights.attention_norm, context.spec.norm_epsilon);
        a.attention_inverse_rms = normed.inverse_rms;
        a.qkv = ops::linear(normed.y, weights.qkv, weights.qkv_bias);
        ops::rope(a.qkv, heads.query_heads + heads.key_heads, context.rope, ops::Turn::forward);
    }
    if (!a.attention.out.defined()) a.attention = context.attention.forward(a.qkv, context.plan);
    if (!a.middle.defined()) a.middle = ops::linear(a.attention.out, weights.out).add_(a.input);
}

void drop_what_policy_drops(ActivationPolicy policy, BlockActivations& a) {
    if (policy == ActivationPolicy::all) return;
    BlockActivations kept;
    kept.input = a.input;
    if (policy == ActivationPolicy::attention) kept.attention = a.attention;
    a = std::move(kept);
}

}  // namespace

at::Tensor block_forward(const BlockContext& context, const BlockViews& weights,
                         BlockActivations& a) {
    complete(context, weights, a);
    const bool keeps_gate_up = context.policy == ActivationPolicy::all;
    const at::Tensor output = mlp_forward(context.spec, weights, a, keeps_gate_up);
    drop_what_policy_drops(context.policy, a);
    return output;
}

void block_backward(const BlockContext& context, const BlockViews& weights,
                    const BlockViews& gradients, const at::Tensor& gradient, BlockActivations&& a) {
    const attention::HeadCounts& heads = context.spec.heads;
    complete(context, weights, a);

    // output = middle + mlp(middle)
    mlp_backward(context.spec, weights, gradients, gradient, a);
    a.gate_up.reset();
    a.middle.reset();

    // middle = input + out(attention(rope(qkv(norm(input)))))
    ops::add_weight_gradient(gradients.out, gradient, a.attention.out);
    const at::Tensor d_attention = ops::linear_backward_input(gradient, weights.out);
    const at::Tensor d_qkv =
        context.attention.backward(d_attention, a.qkv, a.attention, context.plan);
    ops::rope(d_qkv, heads.query_heads + heads.key_heads, context.rope, ops::Turn::backward);

    const at::Tensor normed =
        ops::rms_norm_again(a.input, weights.attention_norm, a.attention_inverse_rms);
    ops::add_weight_gradient(gradients.qkv, d_qkv, normed);
    if (gradients.qkv_bias.defined()) ops::add_bias_gradient(gradients.qkv_bias, d_qkv);
    ops::rms_norm_backward(ops::linear_backward_input(d_qkv, weights.qkv), a.input,
                           a.attention_inverse_rms, weights.attention_norm, gradient,
                           gradients.attention_norm);
}

}  // namespace ringshard::model

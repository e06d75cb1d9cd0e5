#include "block.hpp"

#include "mlp.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/rms_norm.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

shard::ParameterGroup qkv_of(const ModelSpec& spec, const std::string& what,
                             const std::vector<int64_t>& row) {
    const auto tensor = [&](const char* name, int64_t heads) {
        std::vector<int64_t> shape{heads * spec.heads.head_dim};
        shape.insert(shape.end(), row.begin(), row.end());
        return shard::TensorSpec{concat("self_attn.", name, ".", what), std::move(shape)};
    };
    if (spec.is_fused)
        return {{tensor("qkv_proj", spec.heads.query_heads + 2 * spec.heads.key_heads)}};
    return {{tensor("q_proj", spec.heads.query_heads), tensor("k_proj", spec.heads.key_heads),
             tensor("v_proj", spec.heads.key_heads)}};
}

shard::ParameterGroup gate_up_of(const ModelSpec& spec) {
    if (spec.is_fused) return {{{"mlp.gate_up_proj.weight", {2 * spec.intermediate, spec.width}}}};
    return {{{"mlp.gate_proj.weight", {spec.intermediate, spec.width}},
             {"mlp.up_proj.weight", {spec.intermediate, spec.width}}}};
}

shard::ParameterGroup norm_of(const char* name, int64_t width) {
    return {{{concat(name, ".weight"), {width}}}, shard::InitialValues::ones};
}

std::optional<shard::ParameterId> add_if(bool has, shard::UnitLayout& unit,
                                         shard::ParameterGroup group) {
    if (!has) return std::nullopt;
    return unit.add(std::move(group));
}

shard::ParameterGroup zeros(shard::ParameterGroup group) {
    group.initial = shard::InitialValues::zeros;
    return group;
}

}  // namespace

BlockParameters::BlockParameters(shard::UnitLayout& unit, const ModelSpec& spec)
    : qkv(unit.add(qkv_of(spec, "weight", {spec.width}))),
      out(unit.add({{{"self_attn.o_proj.weight",
                      {spec.width, spec.heads.query_heads * spec.heads.head_dim}}}})),
      gate_up(unit.add(gate_up_of(spec))),
      down(unit.add({{{"mlp.down_proj.weight", {spec.width, spec.intermediate}}}})),
      attention_norm(unit.add(norm_of("input_layernorm", spec.width))),
      mlp_norm(unit.add(norm_of("post_attention_layernorm", spec.width))),
      qkv_bias(add_if(spec.attention_bias, unit, zeros(qkv_of(spec, "bias", {})))),
      out_bias(add_if(spec.out_bias, unit, zeros({{{"self_attn.o_proj.bias", {spec.width}}}}))),
      query_norm(
          add_if(spec.has_head_norms, unit, norm_of("self_attn.q_norm", spec.heads.head_dim))),
      key_norm(
          add_if(spec.has_head_norms, unit, norm_of("self_attn.k_norm", spec.heads.head_dim))) {}

BlockViews::BlockViews(const shard::UnitTensors& unit, const BlockParameters& parameters)
    : qkv(unit[parameters.qkv]),
      out(unit[parameters.out]),
      gate_up(unit[parameters.gate_up]),
      down(unit[parameters.down]),
      attention_norm(unit[parameters.attention_norm]),
      mlp_norm(unit[parameters.mlp_norm]) {
    if (parameters.qkv_bias) qkv_bias = unit[*parameters.qkv_bias];
    if (parameters.out_bias) out_bias = unit[*parameters.out_bias];
    if (parameters.query_norm) query_norm = unit[*parameters.query_norm];
    if (parameters.key_norm) key_norm = unit[*parameters.key_norm];
}

std::array<at::Tensor*, 12> tensors_of(BlockActivations& a) {
    static_assert(sizeof(BlockActivations) == 12 * sizeof(at::Tensor), "one of them is forgotten");
    return {&a.input,
            &a.attention_inverse_rms,
            &a.qkv,
            &a.queries.x,
            &a.queries.inverse_rms,
            &a.keys.x,
            &a.keys.inverse_rms,
            &a.attention.out,
            &a.attention.lse,
            &a.middle,
            &a.mlp_inverse_rms,
            &a.gate_up};
}

namespace {

struct HeadRanges {
    explicit HeadRanges(const attention::HeadCounts& heads)
        : queries{0, heads.query_heads}, keys{heads.query_heads, heads.key_heads} {}
    ops::HeadRange queries;
    ops::HeadRange keys;
};

void make_qkv(const BlockContext& context, const BlockViews& weights, BlockActivations& a) {
    const attention::HeadCounts& heads = context.spec.heads;
    const double epsilon = context.spec.norm_epsilon;
    const ops::RmsNormed normed = ops::rms_norm(a.input, weights.attention_norm, epsilon);
    a.attention_inverse_rms = normed.inverse_rms;
    a.qkv = ops::linear(context.gemms, normed.y, weights.qkv, weights.qkv_bias);
    if (weights.query_norm.defined()) {
        const HeadRanges ranges(heads);
        a.queries = ops::head_norm(a.qkv, ranges.queries, weights.query_norm, epsilon);
        a.keys = ops::head_norm(a.qkv, ranges.keys, weights.key_norm, epsilon);
    }
    ops::rope(a.qkv, heads.query_heads + heads.key_heads, context.rope, ops::Turn::forward);
}

// Turns the gradient of what the attention sees into that of the projections, in place.
void qkv_backward(const BlockContext& context, const BlockViews& weights,
                  const BlockViews& gradients, const at::Tensor& d_qkv, const BlockActivations& a) {
    const attention::HeadCounts& heads = context.spec.heads;
    ops::rope(d_qkv, heads.query_heads + heads.key_heads, context.rope, ops::Turn::backward);
    if (!weights.query_norm.defined()) return;
    const HeadRanges ranges(heads);
    ops::head_norm_backward(d_qkv, ranges.queries, a.queries, weights.query_norm,
                            gradients.query_norm);
    ops::head_norm_backward(d_qkv, ranges.keys, a.keys, weights.key_norm, gradients.key_norm);
}

// Makes, in order, what is missing: everything in the forward pass, what was not kept in the
// backward pass.
void complete(const BlockContext& context, const BlockViews& weights, BlockActivations& a) {
    if (!a.qkv.defined()) make_qkv(context, weights, a);
    if (!a.attention.out.defined()) a.attention = context.attention.forward(a.qkv, context.plan);
    if (!a.middle.defined())
        a.middle = ops::linear(context.gemms, a.attention.out, weights.out, weights.out_bias)
                       .add_(a.input);
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
    const at::Tensor output = mlp_forward(context, weights, a, keeps_gate_up);
    drop_what_policy_drops(context.policy, a);
    return output;
}

void block_backward(const BlockContext& context, const BlockViews& weights,
                    const BlockViews& gradients, const at::Tensor& gradient, BlockActivations&& a) {
    complete(context, weights, a);

    // output = middle + mlp(middle)
    mlp_backward(context, weights, gradients, gradient, a);
    a.gate_up.reset();
    a.middle.reset();

    // middle = input + out(attention(rope(norm(qkv(norm(input))))))
    ops::add_weight_gradient(context.gemms, gradients.out, gradient, a.attention.out);
    if (gradients.out_bias.defined()) ops::add_bias_gradient(gradients.out_bias, gradient);
    const at::Tensor d_attention = ops::linear_backward_input(context.gemms, gradient, weights.out);
    const at::Tensor d_qkv =
        context.attention.backward(d_attention, a.qkv, a.attention, context.plan);
    qkv_backward(context, weights, gradients, d_qkv, a);

    const at::Tensor normed =
        ops::rms_norm_again(a.input, weights.attention_norm, a.attention_inverse_rms);
    ops::add_weight_gradient(context.gemms, gradients.qkv, d_qkv, normed);
    if (gradients.qkv_bias.defined()) ops::add_bias_gradient(gradients.qkv_bias, d_qkv);
    ops::rms_norm_backward(ops::linear_backward_input(context.gemms, d_qkv, weights.qkv), a.input,
                           a.attention_inverse_rms, weights.attention_norm, gradient,
                           gradients.attention_norm);
}

}  // namespace ringshard::model

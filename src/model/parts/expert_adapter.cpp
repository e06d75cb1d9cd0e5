#include "expert_adapter.hpp"

#include <ATen/ops/zeros.h>

#include "ringshard/base/text.hpp"
#include "ringshard/ops/grouped_linear.hpp"

namespace ringshard::model {

std::string expert_adapter_prefix(const BlockSpec& block, const std::string& parameter) {
    const bool is_inner = parameter == experts_gate_up && block.adapters.contains(experts_down);
    return is_inner ? "mlp.experts.base_layer" : "mlp.experts";
}

ExpertAdapter::ExpertAdapter(shard::UnitLayout& unit, const std::string& prefix,
                             const AdapterSpec& adapter, int64_t experts,
                             const std::vector<int64_t>& shape)
    : experts_(experts),
      rank_(adapter.rank),
      scaling_(adapter.scaling),
      a_(unit.add(
          {.tensors = {{format_text("{}.lora_A.weight", prefix), {experts * rank_, shape[1]}}},
           .is_adapter = true})),
      b_(unit.add(
          {.tensors = {{format_text("{}.lora_B.weight", prefix), {shape[0], rank_ * experts}}},
           .initial = shard::InitialValues::zeros,
           .is_adapter = true,
           .is_adapter_output = true})),
      operations_(2 * static_cast<double>(rank_ * (shape[0] + shape[1]))) {}

at::Tensor ExpertAdapter::a_of(const shard::UnitTensors& tensors) const {
    const at::Tensor a = tensors[a_];
    return a.defined() ? a.view({experts_, rank_, a.size(1)}) : a;
}

at::Tensor ExpertAdapter::b_of(const shard::UnitTensors& tensors) const {
    const at::Tensor b = tensors[b_];
    return b.view({b.size(0), rank_, experts_}).permute({2, 0, 1}).contiguous();
}

void ExpertAdapter::forward(const Rows& rows, const at::Tensor& x, const at::Tensor& y) const {
    const at::Tensor inner = ops::grouped_linear(rows.gemms, x, a_of(rows.weights), rows.counts);
    y.add_(ops::grouped_linear(rows.gemms, inner, b_of(rows.weights), rows.counts), scaling_);
}

at::Tensor ExpertAdapter::backward_input(const Rows& rows, const at::Tensor& dy,
                                         const at::Tensor& dx) const {
    at::Tensor inner =
        ops::grouped_linear_backward_input(rows.gemms, dy, b_of(rows.weights), rows.counts)
            .mul_(scaling_);
    dx.add_(ops::grouped_linear_backward_input(rows.gemms, inner, a_of(rows.weights), rows.counts));
    return inner;
}

void ExpertAdapter::add_gradients(const Rows& rows, const shard::UnitTensors& gradients,
                                  const at::Tensor& dy, const at::Tensor& inner,
                                  const at::Tensor& x) const {
    ops::add_grouped_weight_gradient(rows.gemms, a_of(gradients), inner, x, rows.counts);
    const at::Tensor d_b = gradients[b_];
    if (!d_b.defined()) return;
    const at::Tensor by_expert = at::zeros({experts_, d_b.size(0), rank_}, d_b.options());
    ops::add_grouped_weight_gradient(
        rows.gemms, by_expert, dy,
        ops::grouped_linear(rows.gemms, x, a_of(rows.weights), rows.counts).mul_(scaling_),
        rows.counts);
    d_b.view({d_b.size(0), rank_, experts_}).add_(by_expert.permute({1, 2, 0}));
}

at::Tensor b_of_expert(const at::Tensor& b, int64_t experts, int64_t expert) {
    return b.view({b.size(0), b.size(1) / experts, experts}).select(2, expert).contiguous();
}

}  // namespace ringshard::model

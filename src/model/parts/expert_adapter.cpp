#include "expert_adapter.hpp"

#include <ATen/ops/zeros.h>

#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/ops/grouped_linear.hpp"

namespace ringshard::model {

namespace {

std::string matrix_of(const char* matrix, const NamedAdapter& adapter,
                      const std::string& parameter) {
    return format_text("{}.{}", expert_adapter_prefix(adapter.layers, parameter),
                       matrix_name(matrix, adapter.name));
}

}  // namespace

ExpertAdapter::ExpertAdapter(shard::UnitLayout& unit, const NamedAdapter& adapter, size_t number,
                             const std::string& parameter, int64_t experts,
                             const std::vector<int64_t>& shape)
    : experts_(experts),
      rank_(adapter.layers.at(parameter).rank),
      scaling_(adapter.layers.at(parameter).scaling),
      a_(unit.add(
          {.tensors = {{matrix_of("lora_A", adapter, parameter), {experts * rank_, shape[1]}}},
           .is_made_by_run = true,
           .variant = number})),
      b_(unit.add(
          {.tensors = {{matrix_of("lora_B", adapter, parameter), {shape[0], rank_ * experts}}},
           .initial = shard::InitialValues::zeros,
           .is_made_by_run = true,
           .update = shard::UpdateKind::decaying_at_own_rate,
           .variant = number})),
      operations_(2 * static_cast<double>(rank_ * (shape[0] + shape[1]))) {}

at::Tensor ExpertAdapter::a_of(const Rows& rows, const shard::UnitTensors& tensors) const {
    const at::Tensor a = tensors[a_];
    if (!a.defined()) return a;
    return a.view({experts_, rank_, a.size(1)}).narrow(0, rows.first, std::ssize(rows.counts));
}

at::Tensor ExpertAdapter::b_of(const Rows& rows, const shard::UnitTensors& tensors) const {
    const at::Tensor b = tensors[b_];
    if (!b.defined()) return b;
    return b.view({b.size(0), rank_, experts_}).narrow(2, rows.first, std::ssize(rows.counts));
}

at::Tensor ExpertAdapter::b_by_expert(const Rows& rows) const {
    return b_of(rows, rows.weights).permute({2, 0, 1}).contiguous();
}

void ExpertAdapter::forward(const Rows& rows, const at::Tensor& x, const at::Tensor& y) const {
    const at::Tensor inner =
        ops::grouped_linear(rows.gemms, x, a_of(rows, rows.weights), rows.counts);
    y.add_(ops::grouped_linear(rows.gemms, inner, b_by_expert(rows), rows.counts), scaling_);
}

at::Tensor ExpertAdapter::backward_input(const Rows& rows, const at::Tensor& dy,
                                         const at::Tensor& dx) const {
    at::Tensor inner =
        ops::grouped_linear_backward_input(rows.gemms, dy, b_by_expert(rows), rows.counts)
            .mul_(scaling_);
    dx.add_(ops::grouped_linear_backward_input(rows.gemms, inner, a_of(rows, rows.weights),
                                               rows.counts));
    return inner;
}

void ExpertAdapter::add_gradients(const Rows& rows, const shard::UnitTensors& gradients,
                                  const at::Tensor& dy, const at::Tensor& inner,
                                  const at::Tensor& x) const {
    ops::add_grouped_weight_gradient(rows.gemms, a_of(rows, gradients), inner, x, rows.counts);
    const at::Tensor d_b = b_of(rows, gradients);
    if (!d_b.defined()) return;
    const at::Tensor by_expert =
        at::zeros({std::ssize(rows.counts), d_b.size(0), rank_}, d_b.options());
    ops::add_grouped_weight_gradient(
        rows.gemms, by_expert, dy,
        ops::grouped_linear(rows.gemms, x, a_of(rows, rows.weights), rows.counts).mul_(scaling_),
        rows.counts);
    d_b.add_(by_expert.permute({1, 2, 0}));
}

}  // namespace ringshard::model

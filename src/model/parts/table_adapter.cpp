#include "table_adapter.hpp"

#include <ATen/ops/zeros.h>

#include "ringshard/base/text.hpp"
#include "ringshard/ops/embedding.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

TableAdapter::TableAdapter(shard::UnitLayout& unit, const std::string& table, int64_t vocabulary,
                           int64_t width, const AdapterSpec& spec)
    : a_(unit.add({.tensors = {{table + ".lora_embedding_A", {spec.rank, vocabulary}}},
                   .initial = shard::InitialValues::zeros,
                   .is_made_by_run = true,
                   .stand = shard::Stand::table})),
      b_(unit.add({.tensors = {{table + ".lora_embedding_B", {width, spec.rank}}},
                   .is_made_by_run = true})),
      scaling_(spec.scaling),
      operations_(2 * static_cast<double>(spec.rank * width)) {}

at::Tensor TableAdapter::inner_of(const shard::UnitTensors& weights,
                                  const at::Tensor& tokens) const {
    return ops::embedding(tokens, weights[a_].t().contiguous()).mul_(scaling_);
}

void TableAdapter::add_rows(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                            const at::Tensor& tokens, const at::Tensor& x) const {
    ops::add_linear(gemms, x, inner_of(weights, tokens), weights[b_]);
}

void TableAdapter::add_gradients(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                                 const shard::UnitTensors& gradients, const at::Tensor& tokens,
                                 const at::Tensor& d_x, std::optional<int64_t> left_out) const {
    const at::Tensor b = weights[b_];
    const at::Tensor dy = d_x.to(b.scalar_type());
    ops::add_weight_gradient(gemms, gradients[b_], dy, inner_of(weights, tokens));
    const at::Tensor d_inner = ops::linear_backward_input(gemms, dy, b).mul_(scaling_);
    const at::Tensor d_a = gradients[a_];
    const at::Tensor by_token = at::zeros({d_a.size(1), d_a.size(0)}, d_a.options());
    ops::embedding_backward(d_inner, tokens, by_token, left_out);
    d_a.add_(by_token.t());
}

}  // namespace ringshard::model

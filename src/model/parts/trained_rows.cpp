#include "trained_rows.hpp"

#include <ATen/ops/gather.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>

#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

TrainedRows::TrainedRows(shard::UnitLayout& unit, const std::string& module,
                         std::vector<int64_t> rows, int64_t width)
    : rows_(std::move(rows)),
      values_(unit.add({.tensors = {{module + ".token_adapter.trainable_tokens_delta",
                                     {narrow<int64_t>(rows_.size()), width}}},
                        .is_made_by_run = true,
                        .stand = shard::Stand::table})) {}

at::Tensor TrainedRows::rows_on(const at::Tensor& tensor) const {
    return at::tensor(rows_, at::kLong).to(tensor.device());
}

at::Tensor TrainedRows::marks_of(const at::Tensor& tokens, at::ScalarType type) const {
    return tokens.unsqueeze(1).eq(rows_on(tokens)).to(type);
}

// A product with a mark is exact, and at most one of a row is not 0.
void TrainedRows::replace_rows(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                               const at::Tensor& tokens, const at::Tensor& x) const {
    const at::Tensor marks = marks_of(tokens, x.scalar_type());
    x.mul_(1 - marks.sum(at::IntArrayRef{1}, true));
    ops::add_linear_backward_input(gemms, x, marks, weights[values_]);
}

void TrainedRows::add_row_gradients(const ops::Gemms& gemms, const shard::UnitTensors& gradients,
                                    const at::Tensor& tokens, const at::Tensor& d_x,
                                    std::optional<int64_t> left_out) const {
    const at::Tensor marks = marks_of(tokens, d_x.scalar_type());
    for (size_t row = 0; row < rows_.size(); ++row)
        if (rows_[row] == left_out) marks.select(1, narrow<int64_t>(row)).zero_();
    ops::add_weight_gradient(gemms, gradients[values_], marks, d_x);
}

void TrainedRows::replace_logits(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                                 const at::Tensor& x, const at::Tensor& logits) const {
    logits.index_copy_(1, rows_on(logits), ops::linear(gemms, x, weights[values_]));
}

// gather: index_select has no implementation for tensors without numbers, which a plan takes.
at::Tensor TrainedRows::take_logit_gradients(const at::Tensor& d_logits) const {
    const at::Tensor columns =
        rows_on(d_logits).unsqueeze(0).expand({d_logits.size(0), narrow<int64_t>(rows_.size())});
    at::Tensor taken = d_logits.gather(1, columns);
    d_logits.scatter_(1, columns, 0);
    return taken;
}

void TrainedRows::add_logit_gradients(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                                      const shard::UnitTensors& gradients,
                                      const at::Tensor& d_logits, const at::Tensor& x,
                                      const at::Tensor& d_x) const {
    ops::add_weight_gradient(gemms, gradients[values_], d_logits, x);
    ops::add_linear_backward_input(gemms, d_x, d_logits, weights[values_]);
}

}  // namespace ringshard::model

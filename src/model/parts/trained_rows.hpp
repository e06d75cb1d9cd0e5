#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/ops/gemm.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// Rows of a frozen embedding or output layer that train, in place of the matrix's: PEFT's
// trainable_token_indices. They begin as the matrix has them. Dimensions: t tokens, n trained rows,
// v vocabulary, w width.
class TrainedRows {
public:
    TrainedRows(shard::UnitLayout& unit, const std::string& module, std::vector<int64_t> rows,
                int64_t width);

    // Overwrites the rows of x [t, w] whose token is one of these.
    void replace_rows(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                      const at::Tensor& tokens, const at::Tensor& x) const;
    // Adds d_x [t, w] to the gradients of the rows. `left_out`: a token that is never learned.
    void add_row_gradients(const ops::Gemms& gemms, const shard::UnitTensors& gradients,
                           const at::Tensor& tokens, const at::Tensor& d_x,
                           std::optional<int64_t> left_out) const;

    // Overwrites the logits [t, v] of these tokens. x [t, w].
    void replace_logits(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                        const at::Tensor& x, const at::Tensor& logits) const;
    // Returns the gradients [t, n] of their logits, which become 0 in d_logits.
    at::Tensor take_logit_gradients(const at::Tensor& d_logits) const;
    // Adds to the gradient d_x, which has that of the other logits, and to those of the rows.
    void add_logit_gradients(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                             const shard::UnitTensors& gradients, const at::Tensor& d_logits,
                             const at::Tensor& x, const at::Tensor& d_x) const;

private:
    at::Tensor rows_on(const at::Tensor& tensor) const;  // int64 [n], on its device
    // [t, n]: 1 where token t is row n.
    at::Tensor marks_of(const at::Tensor& tokens, at::ScalarType type) const;

    std::vector<int64_t> rows_;
    shard::ParameterId values_;  // [n, w]
};

}  // namespace ringshard::model

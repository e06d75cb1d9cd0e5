#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "projection_spec.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// The adapter of an embedding, as PEFT has it: the row of token t becomes W[t] + s B A[:, t].
// A [r, v] begins as 0, B [w, r] normal with the deviation 1, and dropout does not concern them.
// Dimensions: t tokens, v vocabulary, w width, r rank.
class TableAdapter {
public:
    TableAdapter(shard::UnitLayout& unit, const std::string& table, int64_t vocabulary,
                 int64_t width, const AdapterSpec& spec);

    // Adds its part to the rows x [t, w] of tokens [t].
    void add_rows(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                  const at::Tensor& tokens, const at::Tensor& x) const;
    // d_x [t, w]. `left_out`: a token that is never learned.
    void add_gradients(const ops::Gemms& gemms, const shard::UnitTensors& weights,
                       const shard::UnitTensors& gradients, const at::Tensor& tokens,
                       const at::Tensor& d_x, std::optional<int64_t> left_out) const;
    double operations() const { return operations_; }  // of a token and the forward pass

private:
    // s A[:, tokens], as rows [t, r].
    at::Tensor inner_of(const shard::UnitTensors& weights, const at::Tensor& tokens) const;

    shard::ParameterId a_;
    shard::ParameterId b_;
    double scaling_;
    double operations_;
};

}  // namespace ringshard::model

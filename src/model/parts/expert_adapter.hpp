#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "low_rank.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// The adapter of one matrix of all experts of a block, as PEFT has it for a parameter of three
// dimensions: y += scaling x (x A_e^T) B_e^T for the rows of expert e. A [experts x rank, in] has
// the rows of an expert side by side; a column of B [out, rank x experts] is that of a rank, and
// there of an expert.
class ExpertAdapter {
public:
    // Of learner `number` for experts_gate_up or experts_down. `shape`: [out, in] of an expert.
    ExpertAdapter(shard::UnitLayout& unit, const NamedAdapter& adapter, size_t number,
                  const std::string& parameter, int64_t experts, const std::vector<int64_t>& shape);

    // The rows of the experts, in the order of the experts.
    struct Rows {
        const ops::Gemms& gemms;
        const shard::UnitTensors& weights;
        const std::vector<int64_t>& counts;
        int64_t first;  // of the experts that have these rows
    };
    void forward(const Rows& rows, const at::Tensor& x, const at::Tensor& y) const;

    // Returns the gradient of x A_e^T, and adds that of x to `dx`.
    at::Tensor backward_input(const Rows& rows, const at::Tensor& dy, const at::Tensor& dx) const;
    // `inner`: returned by backward_input().
    void add_gradients(const Rows& rows, const shard::UnitTensors& gradients, const at::Tensor& dy,
                       const at::Tensor& inner, const at::Tensor& x) const;

    // Of a row and the forward pass.
    double operations() const { return operations_; }

private:
    // Of the experts that have rows: [experts, rank, in], and [out, rank, experts] as B lies.
    at::Tensor a_of(const Rows& rows, const shard::UnitTensors& tensors) const;
    at::Tensor b_of(const Rows& rows, const shard::UnitTensors& tensors) const;
    // Of the weights, [experts, out, rank].
    at::Tensor b_by_expert(const Rows& rows) const;

    int64_t experts_;
    int64_t rank_;
    double scaling_;
    shard::ParameterId a_;
    shard::ParameterId b_;
    double operations_;
};

}  // namespace ringshard::model

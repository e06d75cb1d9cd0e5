#pragma once

#include <optional>
#include <vector>

#include "expert_adapter.hpp"
#include "projection.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// Experts on rows that are here, expert by expert: down(activation(gate) * up), or
// down(activation(up)), times the factor of the row. The weights hold the matrices of those experts
// that have the rows. Matrices in four bits become numbers of the compute type a few experts at a
// time.
class ExpertMlp {
public:
    ExpertMlp(shard::UnitLayout& unit, const BlockSpec& block, const ExpertsSpec& spec);

    struct Rows {
        const ProjectionContext& context;
        const shard::UnitTensors& weights;
        const std::vector<int64_t>& counts;  // of each of some experts
        int64_t first = 0;                   // of these experts
        size_t adapter = 0;                  // of those that train together: that of the rows
    };
    // Returns how many of the tokens each of the adapters has that train together, in their order,
    // if some of these are of experts; else the number of tokens alone.
    std::vector<int64_t> tokens_by_adapter(const ProjectionContext& context, int64_t tokens) const;

    // Returns gate and up [m, 2i], without a gate [m, i], of the rows x [m, w].
    at::Tensor inner(const Rows& rows, const at::Tensor& x) const;
    // Returns [m, w]. factors [m, 1].
    at::Tensor output(const Rows& rows, const at::Tensor& gate_up, const at::Tensor& factors) const;
    // Returns the gradient of the factors [m] fp32, and writes that of gate_up over it.
    at::Tensor backward_output(const Rows& rows, const shard::UnitTensors& gradients,
                               const at::Tensor& dy, const at::Tensor& factors,
                               const at::Tensor& gate_up) const;
    struct InputGradient {
        at::Tensor dx;         // [m, w]
        at::Tensor d_inner{};  // of the adapter
    };
    InputGradient backward_inner(const Rows& rows, const at::Tensor& d_gate_up) const;
    // Adds to the gradients of the weights that make gate and up; the caller may have sent dx
    // before.
    void add_inner_gradients(const Rows& rows, const shard::UnitTensors& gradients,
                             const at::Tensor& d_gate_up, const at::Tensor& d_inner,
                             const at::Tensor& x) const;

    // Of a token, which goes through several experts.
    void add_products(const MadeAgain& again, std::vector<ProductUse>& products) const;
    std::vector<WeightUse> weights() const;

private:
    using Adapters = std::vector<std::optional<ExpertAdapter>>;
    // Returns the adapter of these rows, or null.
    const ExpertAdapter* adapter_of(const Rows& rows, const Adapters& adapters) const;
    // The matrices of all experts, [out, in] each.
    struct Matrices {
        shard::ParameterId id;
        int64_t out;
        int64_t in;
    };
    // [count, out, in] of a slice of the experts.
    at::Tensor weights_of(const shard::UnitTensors& weights, const Matrices& matrices,
                          const shard::FlatUnit::Slice& slice) const;
    // The products of the rows with these matrices or, backward, with them transposed.
    at::Tensor forward(const Rows& rows, const Matrices& matrices, const at::Tensor& x) const;
    at::Tensor backward_input(const Rows& rows, const Matrices& matrices,
                              const at::Tensor& dy) const;
    template <class Multiply>
    at::Tensor by_slices(const Rows& rows, const Matrices& matrices, const at::Tensor& x,
                         int64_t columns, Multiply multiply) const;
    // Adds to the gradient of these matrices.
    void add_gradient(const Rows& rows, const shard::UnitTensors& gradients,
                      const Matrices& matrices, const at::Tensor& dy, const at::Tensor& x) const;
    at::Tensor activated(const at::Tensor& gate_up) const;
    void activated_backward(const at::Tensor& d_product, const at::Tensor& gate_up) const;

    ExpertsSpec spec_;
    int64_t width_;
    Matrices gate_up_;
    Matrices down_;
    std::optional<shard::ParameterId> gate_up_bias_;  // [count, 2i]
    std::optional<shard::ParameterId> down_bias_;     // [count, w]
    Adapters gate_up_adapters_;
    Adapters down_adapters_;
    size_t num_adapters_;  // 0 if none of them is of experts
};

}  // namespace ringshard::model

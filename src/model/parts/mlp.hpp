#pragma once

#include <optional>
#include <vector>

#include "mlp_context.hpp"
#include "projection.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/xielu.hpp"

namespace ringshard::model {

// The tensors between the first and the second product of an MLP or of experts, for some tokens.
struct MlpInner {
    at::Tensor gate_up;  // [t, 2i]: a row is gate, then up. Without a gate, [t, i]. Of experts,
                         // [m, 2i]: the rows of the experts of this rank, chunk by chunk, expert
                         // by expert.
    at::Tensor probabilities{};  // [t, e] fp32, of experts
    at::Tensor experts{};        // [t, k] int64
    at::Tensor arrivals{};       // ExpertExchange's
    at::Tensor shared{};         // [t, 2i], of the MLP beside experts
    at::Tensor shared_gate{};    // [t, 1], before its sigmoid
    at::Tensor product{};  // [t, i], of an MLP: the input of the second product, if it is kept
};

struct MlpOutput {
    MlpInner inner;     // of experts: whole where the context keeps it
    at::Tensor output;  // [t, w]
};

// down(activation(gate) * up), or down(activation(up)).
class Mlp {
public:
    Mlp(shard::UnitLayout& unit, const BlockSpec& block, const MlpSpec& spec);

    MlpInner inner(const MlpContext& context, const shard::UnitTensors& weights,
                   const at::Tensor& x) const;
    // Returns MlpInner::product.
    at::Tensor product(const shard::UnitTensors& weights, const MlpInner& inner) const {
        return activated(weights, inner.gate_up);
    }
    // Returns [t, w]. addend and into as Projection::forward() has them.
    at::Tensor output(const MlpContext& context, const shard::UnitTensors& weights,
                      const MlpInner& inner, const at::Tensor& addend = {},
                      const at::Tensor& into = {}) const;
    // addend and into as output() has them.
    MlpOutput forward(const MlpContext& context, const shard::UnitTensors& weights,
                      const at::Tensor& x, const at::Tensor& addend, const at::Tensor& into) const;
    // Returns the gradient of x; writes over inner.gate_up. x may be undefined if the MLP adds
    // gradients last: then it is left to add_inner_gradients() to add those of the first product.
    at::Tensor backward(const MlpContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                        const MlpInner& inner, const at::Tensor& x) const;
    bool adds_gradients_last() const { return gate_up_.splits_backward(); }
    void add_inner_gradients(const MlpContext& context, const shard::UnitTensors& weights,
                             const shard::UnitTensors& gradients, const MlpInner& inner,
                             const at::Tensor& x) const {
        gate_up_.add_gradients(context.projections, weights, gradients, inner.gate_up, x);
    }
    // It has no router that could be counted.
    void count_choices(const RouterContext&, const MlpInner&) const {}

    // Adds the products, of which the backward pass makes the inner ones or all again.
    void add_products(const MadeAgain& again, std::vector<ProductUse>& products) const {
        add_products("", again, products);
    }
    // The names begin with `prefix`.
    void add_products(const std::string& prefix, const MadeAgain& again,
                      std::vector<ProductUse>& products) const {
        gate_up_.add_products(prefix + "gate_up", again.inner, products);
        down_.add_products(prefix + "down", again.outer, products);
    }
    std::vector<const Projection*> projections() const { return {&gate_up_, &down_}; }
    std::vector<WeightUse> other_weights() const { return {}; }

private:
    at::Tensor activated(const shard::UnitTensors& weights, const at::Tensor& inner) const;
    // As ops::activate_backward().
    void activated_backward(const shard::UnitTensors& weights, const shard::UnitTensors& gradients,
                            const at::Tensor& d_product, const at::Tensor& inner,
                            bool makes_product) const;
    ops::XieluScalars scalars_of(const shard::UnitTensors& tensors) const;

    ops::Activation activation_;
    bool is_gated_;
    Projection gate_up_;
    Projection down_;
    // The scalars of xIELU.
    std::optional<shard::ParameterId> alpha_p_;
    std::optional<shard::ParameterId> alpha_n_;
};

}  // namespace ringshard::model

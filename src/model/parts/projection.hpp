#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "low_rank.hpp"
#include "own_biases.hpp"
#include "projection_spec.hpp"
#include "ringshard/model/operations.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// A weight with which a part multiplies rows.
struct WeightUse {
    WeightShape shape;
    shard::ParameterId weight;
    double rows_per_token = 1;
};

class Projection;

// One of the products of a block, of a token. Products that share a name are summed.
struct ProductUse {
    std::string name;
    double operations;   // of the forward pass
    bool is_made_again;  // in the backward pass
    // Nothing where no weight of a matrix has a gradient: the backward pass is of the inputs alone.
    std::optional<WeightUse> weight{};
    const Projection* projection = nullptr;  // whose product may be in FP8
    double more_backward = 0;                // beyond two for each of the forward pass
    KernelWords kernels{};
};

// Says which products of an MLP the backward pass makes again.
struct MadeAgain {
    bool inner;  // before the activation
    bool outer;  // behind it
};

// Says if the pass that made dy has added the gradient of the bias already.
enum class BiasGradient { is_missing, is_added };

// y = x w^T + bias, and what adapters add to it. x [t, in], y [t, out].
class Projection {
public:
    Projection(shard::UnitLayout& unit, const ProjectionSpec& spec);

    at::Tensor forward(const ProjectionContext& context, const shard::UnitTensors& weights,
                       const at::Tensor& x) const;
    // Returns y + rows [t, out], which the product itself adds on a GPU: in `into`, or if that is
    // undefined in a new tensor.
    at::Tensor forward_add(const ProjectionContext& context, const shard::UnitTensors& weights,
                           const at::Tensor& x, const at::Tensor& rows,
                           const at::Tensor& into) const;
    // Returns the gradient of x, and adds to the gradients of weight and bias.
    at::Tensor backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                        const at::Tensor& x, BiasGradient of_bias = BiasGradient::is_missing) const;
    // Returns an undefined tensor where there is no bias, a frozen one, or one of each layer apart.
    at::Tensor bias_gradient(const shard::UnitTensors& gradients) const {
        return biases_.size() == 1 ? gradients[biases_.front().parameter] : at::Tensor();
    }
    bool has_biases_apart() const { return biases_.size() > 1; }

    // The halves of backward(), for a part that makes x again between them.
    at::Tensor backward_input(const ProjectionContext& context, const shard::UnitTensors& weights,
                              const at::Tensor& dy) const;
    void add_gradients(const ProjectionContext& context, const shard::UnitTensors& weights,
                       const shard::UnitTensors& gradients, const at::Tensor& dy,
                       const at::Tensor& x, BiasGradient of_bias = BiasGradient::is_missing) const;
    // Returns true if the halves cost no more than the whole, which shares products of adapters.
    bool splits_backward() const { return !has_adapters(); }

    // Adds the product with the weight under this name, and those of adapters.
    void add_products(const std::string& name, bool is_made_again,
                      std::vector<ProductUse>& products) const;
    const WeightShape& shape() const { return shape_; }
    shard::ParameterId weight() const { return weight_; }

private:
    // Calls work(context, rows of) for chunks of tokens that are small enough for one product, and
    // joins the tensors that it returns.
    template <class Work>
    at::Tensor by_chunks(const ProjectionContext& of_block, int64_t tokens, Work work) const;
    at::Tensor add_chunk(const ProjectionContext& context, const shard::UnitTensors& weights,
                         const at::Tensor& x, const at::Tensor& rows, const at::Tensor& into) const;
    at::Tensor forward_chunk(const ProjectionContext& context, const shard::UnitTensors& weights,
                             const at::Tensor& x) const;
    at::Tensor backward_chunk(const ProjectionContext& context, const shard::UnitTensors& weights,
                              const shard::UnitTensors& gradients, const at::Tensor& dy,
                              const at::Tensor& x, BiasGradient of_bias) const;
    at::Tensor backward_input_of_chunk(const ProjectionContext& context,
                                       const shard::UnitTensors& weights,
                                       const at::Tensor& dy) const;
    void add_gradients_of_chunk(const ProjectionContext& context, const shard::UnitTensors& weights,
                                const shard::UnitTensors& gradients, const at::Tensor& dy,
                                const at::Tensor& x, BiasGradient of_bias) const;
    // The weight [out, in], which may be a view of a turned one.
    at::Tensor matrix_of(const ProjectionContext& context, const shard::UnitTensors& weights) const;
    void add_biases(shard::UnitLayout& unit, const ProjectionSpec& spec);
    at::Tensor bias_of(const shard::UnitTensors& weights) const;
    void add_bias_gradients(const shard::UnitTensors& gradients, const at::Tensor& dy) const;
    void add_base_gradients(const ProjectionContext& context, const shard::UnitTensors& gradients,
                            const at::Tensor& dy, const at::Tensor& x, BiasGradient of_bias) const;

    // What one of the learners has of these layers.
    struct Learner {
        std::optional<LowRank> low_rank;
        OwnBiases biases;
    };
    bool has_adapters() const { return !learners_.empty(); }
    // The tokens of a learner lie beside each other.
    struct Tokens {
        int64_t begin;
        int64_t length;
        at::Tensor of(const at::Tensor& all) const { return all.narrow(0, begin, length); }
    };
    // Calls `work` for each learner that has tokens here, with the context of these.
    template <class Work>
    void for_each_learner(const ProjectionContext& context, int64_t tokens, Work work) const;
    // A backward pass of the tokens of a learner that adapts these layers.
    struct OfLearner {
        const LowRank& low_rank;
        ProjectionContext context;
        Tokens tokens;
        LowRank::Gradient gradient;

        LowRank::Operands operands(const shard::UnitTensors& weights,
                                   const at::Tensor& base) const {
            return {context, weights, base};
        }
    };
    struct Backward {
        at::Tensor of_base;  // the gradient of x w^T
        std::vector<OfLearner> learners;
    };
    // `base`: the weight, which is read where there are magnitudes.
    Backward begin_backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                            const at::Tensor& base, const at::Tensor& dy) const;
    bool has_magnitudes() const;
    // A token goes through one of them.
    double most_of_adapters(double (LowRank::*count)() const) const {
        double most = 0;
        for (const Learner& learner : learners_)
            if (learner.low_rank) most = std::max(most, ((*learner.low_rank).*count)());
        return most;
    }

    WeightShape shape_;
    bool is_turned_;
    shard::ParameterId weight_;
    struct Bias {
        shard::ParameterId parameter;
        int64_t out;
    };
    std::vector<Bias> biases_;       // none, one of all layers, or one of each
    std::vector<Learner> learners_;  // none, if no learner has anything of these layers
};

}  // namespace ringshard::model

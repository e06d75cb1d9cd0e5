#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "../block_context.hpp"
#include "../saved.hpp"
#include "projection.hpp"

namespace ringshard::model {

// The part of a block in which tokens see others, between two projections. Its forward pass is
// project(), mix(), output(), its backward pass output_backward(), project_backward(): the block
// drops and makes again what it keeps between them.
class Mixer {
public:
    virtual ~Mixer() = default;

    virtual bool is_projected(const Saved& saved) const = 0;
    // Makes of x [t, w] what mix() needs: of attention, queries, keys and values.
    virtual void project(const BlockContext& context, const shard::UnitTensors& weights,
                         const at::Tensor& x, Saved& saved) const = 0;
    // Does nothing where its result was kept. Collective over the sequence group.
    virtual void mix(const BlockContext& context, const shard::UnitTensors& weights,
                     Saved& saved) const = 0;
    // Returns [t, w]. addend [t, w], or undefined: is added to it.
    virtual at::Tensor output(const BlockContext& context, const shard::UnitTensors& weights,
                              const Saved& saved, const at::Tensor& addend) const = 0;

    // Returns the gradient of the rows as they were projected. Collective over the sequence group.
    virtual at::Tensor output_backward(const BlockContext& context,
                                       const shard::UnitTensors& weights,
                                       const shard::UnitTensors& gradients, const at::Tensor& dy,
                                       const Saved& saved) const = 0;
    // Returns the gradient of x. x may be undefined if the mixer adds gradients last: then it is
    // left to add_project_gradients() to add those of the weights.
    virtual at::Tensor project_backward(const BlockContext& context,
                                        const shard::UnitTensors& weights,
                                        const shard::UnitTensors& gradients,
                                        const at::Tensor& d_rows, const at::Tensor& x) const = 0;
    virtual bool adds_gradients_last() const { return false; }
    virtual void add_project_gradients(const BlockContext&, const shard::UnitTensors&,
                                       const shard::UnitTensors&, const at::Tensor&,
                                       const at::Tensor&) const {}

    // `keeps_output`: the block keeps what it makes of output().
    virtual std::vector<ProductUse> products(config::ActivationPolicy policy,
                                             bool keeps_output) const = 0;
    // Returns the operations for a query and a key that it sees, of the passes forward.
    virtual std::map<attention::Mask, Operations::OfPair> pairs(config::ActivationPolicy) const {
        return {};
    }
    virtual std::vector<const Projection*> projections() const = 0;

protected:
    Mixer() = default;
    Mixer(const Mixer&) = delete;
    Mixer& operator=(const Mixer&) = delete;
};

}  // namespace ringshard::model

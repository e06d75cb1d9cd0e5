#pragma once

#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <vector>

#include "layer_input.hpp"
#include "part.hpp"
#include "stage_costs.hpp"

namespace ringshard::model {

// The part of a layer in which tokens see others. It makes what brings it the tokens of other ranks
// from the group that shares the sequence.
class Mixer : public Part {
public:
    bool is_projected(const Saved& saved) const { return saved.has(projected_); }
    // Makes of x [t, w] what mix() needs: of attention, queries, keys and values.
    virtual void project(const Pass& pass, const at::Tensor& x) const = 0;
    // Does nothing where its result was kept. Collective over the sequence group.
    virtual void mix(const Pass& pass) const = 0;
    // Returns the rows of the last product.
    virtual at::Tensor mixed(const Pass& pass) const = 0;

    // From the gradient of the output. Collective over the sequence group.
    virtual void backward(const BackwardPass& pass, at::Tensor dy,
                          const LayerInput& input) const = 0;

    // makes_output_again: the backward pass needs the output, which was not kept.
    virtual void add_costs(StageCosts& costs, bool makes_output_again) const = 0;
    bool is_projected_again(config::ActivationPolicy policy) const {
        return !projected_.is_kept(policy);
    }

    // Makes its part of the cache of a block, for so many tokens of so many texts.
    virtual void make_cache(LayerCache& cache, int64_t capacity, int64_t texts,
                            const at::TensorOptions& options) const = 0;
    // Returns the GPU's operators that it uses for a batch.
    virtual std::set<std::string> operators(const BlockContext&, at::ScalarType, at::Device) const {
        return {};
    }
    // Returns true if its work on a batch of this shape is the same every time: if the host plans
    // it, it is not.
    virtual bool can_be_recorded(const BlockContext&) const { return false; }

protected:
    explicit Mixer(SavedLayout& saved)
        : projected_(saved.add(config::ActivationPolicy::all_but_gate_up)) {}

    SavedSlot projected_;  // rows that project() makes
};

}  // namespace ringshard::model

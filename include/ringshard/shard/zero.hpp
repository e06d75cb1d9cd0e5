#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "ringshard/comm/pending.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/shard/flat_unit.hpp"
#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

// The weights and gradients of all units, cut over the zero group as the profile says, and their
// way to where they are used and back. Four yes/no answers (mesh::Cuts) make up every profile:
//
// - optimizer: weights are updated, and moments kept, for this rank's range only.
// - gradients: every micro-batch is reduced into this range; else whole ones are kept until the
//   step ends.
// - weights: only this range is held at rest; a unit is gathered before it is used.
// - keeps_weights_after_forward: what was gathered for the forward pass stays for the backward
// pass.
class Zero {
public:
    struct Types {
        at::ScalarType compute;  // of gathered weights
        at::ScalarType reduce;   // in which gradients are summed over ranks
    };
    // What this rank updates of a unit. Weights and gradients are fp32.
    struct Shard {
        Range range;
        at::Tensor weights;
        at::Tensor gradient;
        at::Tensor rounded;  // the weights in the compute type; undefined where that is fp32
        // Whoever updates the weights clears the gradient and rounds them on the way, and says so.
        bool gradient_is_clear = true;
        bool is_rounded = false;
    };

    Zero(std::vector<FlatUnit> units, const mesh::Cuts& cuts, const Types& types,
         const mesh::Mesh& mesh);

    const std::vector<FlatUnit>& units() const { return units_; }
    at::ScalarType compute_type() const { return types_.compute; }
    size_t num_units() const { return units_.size(); }

    // The whole unit in the compute type. prefetch() starts gathering it; weights() waits for it;
    // after release() the buffer may be used for another unit. `next_use` is where the unit is
    // wanted again before its weights change: what is not wanted again must be given up, or later
    // steps would find the old weights. Collective over the zero group.
    enum class NextUse { backward, none };
    void prefetch(size_t unit);
    at::Tensor weights(size_t unit);
    void release(size_t unit, NextUse next_use);

    // A whole fp32 buffer to which the unit's gradients are added; reduce() when the backward pass
    // of a micro-batch has added all of them. Collective over the zero group.
    at::Tensor gradients(size_t unit);
    void reduce(size_t unit);
    // After the last micro-batch: the shards hold the gradient of the step. Collective over the
    // world.
    void finish_gradients();
    void clear_gradients();

    // This rank's part of the sum of squares of the whole gradient. The parts of all ranks add up
    // to it at every profile, since each sums over its own range only: no weight is counted twice.
    double gradient_squares() const;

    Shard& shard(size_t unit) { return states_[unit].shard; }
    const Shard& shard(size_t unit) const { return states_[unit].shard; }
    // The range of a unit that is this rank's alone, whatever the profile: cut over the whole
    // world. It counts it in norms and writes it into checkpoints.
    Range own_range(size_t unit) const;

    // Makes the updated weights of the shards those that prefetch() and weights() give. No unit may
    // be gathered. Collective over the zero group.
    void publish_weights();

private:
    struct Gathered {
        at::Tensor whole;
        comm::Pending arriving;
    };
    struct UnitState {
        Shard shard;
        at::Tensor compute_shard;  // of the shard's range, in the compute type: what is gathered
        at::Tensor whole_weights;  // where weights are whole at rest
        // Where gradients are whole, or while a backward pass adds to them.
        at::Tensor whole_gradient;
        std::optional<Gathered> gathered;  // where weights are cut: from prefetch() to release()
    };
    struct Reduction {
        size_t unit;
        at::Tensor whole;  // being sent
        at::Tensor part;   // arriving
        comm::Pending pending;
    };
    // Buffers by size, used again: at most two blocks and the vocabulary are gathered at a time.
    class Pool {
    public:
        at::Tensor take(int64_t size, const at::TensorOptions& options);
        void give_back(at::Tensor buffer);

    private:
        std::multimap<int64_t, at::Tensor> free_;
    };

    void start_reduction(size_t unit, const at::Tensor& whole);
    void finish_oldest_reduction();
    void all_reduce(comm::Communicator& communicator, const std::vector<at::Tensor>& sums);
    at::Tensor as_sent(const at::Tensor& gradient) const;
    at::TensorOptions options(at::ScalarType type) const;

    std::vector<FlatUnit> units_;
    mesh::Cuts cuts_;
    Types types_;
    const mesh::Mesh& mesh_;
    std::vector<UnitState> states_;
    Pool weight_buffers_;
    Pool gradient_buffers_;
    std::deque<Reduction> reductions_;
};

}  // namespace ringshard::shard

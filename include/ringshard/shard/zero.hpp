#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ringshard/comm/pending.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/shard/flat_store.hpp"
#include "ringshard/shard/flat_unit.hpp"
#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

// The shards of all weights of one placement, with their stores.
struct Shelf {
    Placement placement;
    Chunks chunks;                       // the shards of other units are empty in it
    std::unique_ptr<FlatStore> weights;  // at rest, which are gathered
    // Of trained weights: in fp32, where `weights` are of another type or the placement asks for
    // them; and the gradients.
    std::unique_ptr<FlatStore> masters{};
    std::unique_ptr<FlatStore> gradients{};

    // The weights that an optimizer updates and checkpoints hold; and those that it writes beside
    // them, in the compute type, none where there are no masters.
    FlatStore& exact() const { return masters ? *masters : *weights; }
    FlatStore* rounded() const { return masters ? weights.get() : nullptr; }
};

// The weights and gradients of all units, sharded over the zero group as the profile says, and
// their way to where they are used and back. Four yes/no answers (mesh::Cuts) make up every
// profile:
//
// - optimizer: weights are updated, and moments kept, for this rank's range only.
// - gradients: every micro-batch is reduced into this range; else whole ones are kept until the
//   step ends.
// - weights: only this range is held at rest; a unit is gathered before it is used.
// - keeps_weights_after_forward: gathered weights stay from the forward to the backward pass.
//
// Sharded state may be offloaded; it comes into memory a chunk, or a unit's shard, at a time.
class Zero {
public:
    struct Types {
        at::ScalarType compute;  // of gathered weights, but those of units in fp32
        at::ScalarType reduce;   // in which gradients are summed over ranks
    };
    // Where offloaded state goes; nullptr: it stays in memory.
    struct Offloading {
        offload::OffloadStore* weights;    // in the compute type, where they are sharded
        offload::OffloadStore* optimizer;  // fp32 weights of bf16 ones, and sharded gradients
        bool any() const { return weights != nullptr || optimizer != nullptr; }
    };

    Zero(std::vector<FlatUnit> units, const mesh::Cuts& cuts, const Types& types,
         const mesh::Mesh& mesh, const Offloading& offloading = {});

    const std::vector<FlatUnit>& units() const { return units_; }
    bool is_trained(size_t unit) const { return units_[unit].is_trained(); }
    at::ScalarType compute_type() const { return types_.compute; }
    at::Device device() const { return mesh_.device(); }
    size_t num_units() const { return units_.size(); }
    size_t num_variants() const;  // that train together, at least 1

    // begin_pass() names the units that a pass needs, in order. weights() returns them in this
    // order: the whole unit, or this rank's section of it, in the compute type. Meanwhile the units
    // of the next module, or slice of experts, are gathered, and those after that are read from
    // their offload store, if they have one. After release() the buffer may be used for another
    // unit. `next_use` says whether the backward pass needs the unit again before its weights
    // change; with `none` the buffer is given up, since a later step would find old weights in it.
    // Collective over the zero group.
    enum class NextUse { backward, none };
    void begin_pass(std::vector<size_t> order);
    at::Tensor weights(size_t unit);
    void release(size_t unit, NextUse next_use);

    // gradients() returns an fp32 buffer, shaped like weights(), to which the backward pass adds
    // the gradients of a trained unit; call reduce() when a micro-batch has added all of them.
    // Profiles that keep whole gradients reduce them after the last micro-batch. Collective over
    // the zero group, or over the world where nothing is sharded.
    void begin_last_micro_batch() { is_last_micro_batch_ = true; }
    at::Tensor gradients(size_t unit);
    // As gradients(), for parts whose first operation overwrites its gradient.
    UnitTensors::Part unbegun_gradients(size_t unit);
    void reduce(size_t unit);
    // After the last micro-batch: the shards hold the gradient of the step. Collective over the
    // world.
    void finish_gradients();
    void clear_gradients();

    // This rank's part of the sum of squares of the whole gradient, of each of the variants that
    // train together; else it is one number. The parts of all ranks add up to it at every profile,
    // since each sums over its own range only: no weight is counted twice.
    std::vector<double> gradient_squares() const;
    // The same as a tensor where the gradients are, without waiting for a device.
    at::Tensor sum_gradient_squares() const;

    // The shelves in the order of their placements, trained ones first. Waits until all updated
    // weights have arrived.
    const std::deque<Shelf>& shelves() const {
        wait_for_weights();
        return shelves_;
    }
    const Shelf& shelf_of(size_t unit) const {
        wait_for_weights();
        return *shelf_of_[unit];
    }
    // Shards of weights, of the shelves that `wanted` chooses: trained ones exact, frozen ones as
    // they rest. Codes are bytes.
    struct Weights {
        const Chunks& chunks;
        FlatStore& shards;
    };
    std::vector<Weights> weights_where(const std::function<bool(const Placement&)>& wanted) const;
    std::vector<Weights> trained_weights() const;
    std::vector<Weights> frozen_weights() const;  // but codes
    std::vector<Weights> all_weights() const;     // but codes
    std::vector<Weights> coded_weights() const;
    Weights weights_at_rest_of(size_t unit) const {
        return {shelf_of(unit).chunks, shelf_of(unit).exact()};
    }
    // Returns, of numbers that belong to this rank's shard of a unit, those of all shards, in
    // order. Collective over the zero group.
    at::Tensor join_shards(size_t unit, const at::Tensor& of_shard) const;
    // The ranks that divide a unit, or a section of it, into shards; null where it is not divided.
    comm::Communicator* shard_ranks(size_t unit) const {
        return cuts_.optimizer ? &parts_of(units_[unit]) : nullptr;
    }
    // The shard of one of these ranks, and the section that they divide.
    Range shard_of_rank(size_t unit, int rank) const;
    Range section_range(size_t unit) const { return section_of(units_[unit]); }
    // Returns which shard of a unit this rank holds, and which section: ranks of equal numbers hold
    // copies of the same shards, or of the same whole weights.
    int64_t shard_id(size_t unit) const;
    int64_t section_id(size_t unit) const;
    // The whole unit, or this rank's section of it, where weights are whole at rest; else
    // undefined.
    at::Tensor weights_at_rest(size_t unit) const {
        wait_for_weights();
        return states_[unit].whole_weights;
    }
    // Records that the optimizer has updated all weights, and their rounded ones in the same pass.
    void mark_updated() { is_rounded_ = true; }

    // Returns the range of a unit that belongs to this rank alone in every profile: the unit is
    // divided over the whole world. The rank counts it in norms and writes it into checkpoints.
    Range exclusive_range(size_t unit) const;

    // Bytes that this rank holds: of weights at rest, of buffers for gathered ones, of gradients,
    // and at most of copies that were made to be sent or to arrive.
    struct Memory {
        int64_t weights = 0;
        int64_t gathered = 0;
        int64_t gradients = 0;
        int64_t communication = 0;
    };
    Memory memory() const;

    // Makes weights() return the updated weights: rounds the fp32 masters unless mark_updated() was
    // called, and, under profiles that keep whole weights, gathers them while the next pass
    // computes with the units that have arrived. No unit may be gathered. Collective over the zero
    // group.
    void refresh_compute_weights();
    // Whether it rounded the masters itself when it did so last.
    bool computes_with_masters() const { return computes_with_masters_; }

private:
    struct Gathered {
        at::Tensor whole;
        comm::Pending arriving;
    };
    struct UnitState {
        at::Tensor whole_weights;          // where weights are whole at rest
        mutable comm::Pending all_gather;  // of the updated weights, on their way there
        // Where gradients are whole, or while a backward pass adds to them.
        at::Tensor whole_gradient;
        std::vector<bool> unbegun;         // UnitTensors::Part's
        bool has_gradient = false;         // the reduced one of this step
        bool sums_copies = false;          // of its shards, from the last micro-batch on
        std::optional<Gathered> gathered;  // where weights are sharded: from gather() to release()
    };
    struct Reduction {
        size_t unit;
        at::Tensor whole;
        at::Tensor sent;    // the whole, or a copy in the type of reductions
        at::Tensor part{};  // arriving, where gradients are sharded; else `sent` becomes the sum
        comm::Pending pending{};
        bool is_last = false;  // of the step
    };
    // A sum of a chunk over the copies of the model (hybrid sharding), which saw other data.
    struct SumOfCopies {
        const Shelf* shelf;
        size_t chunk;
        at::Tensor numbers;
        at::Tensor sent;  // the numbers, or a copy in the type of reductions
        comm::Pending pending;
    };
    // Buffers by size, used again: at most two blocks, or a block and two of its slices, and the
    // vocabulary are gathered at a time.
    class Pool {
    public:
        at::Tensor take(int64_t size, const at::TensorOptions& options);
        void give_back(at::Tensor buffer);
        int64_t bytes() const { return bytes_; }  // of all buffers, taken and free

    private:
        using Kind = std::pair<int64_t, at::ScalarType>;
        int64_t bytes_ = 0;
        std::multimap<Kind, at::Tensor> free_;
    };

    at::ScalarType type_of(const Placement& placement) const;  // at rest
    std::vector<at::Tensor> zeros(const Chunks& chunks, at::ScalarType type) const;
    void make_shelves(const Offloading& offloading);
    std::unique_ptr<FlatStore> make_weights(const Shelf& shelf, const Offloading& offloading);
    std::unique_ptr<FlatStore> make_gradients(const Shelf& shelf, const Offloading& offloading);
    // The ranks over which a unit, or a section of it, is sharded; the ranks that hold copies of
    // the same part; and all ranks that compute with the same unit or section.
    comm::Communicator& parts_of(const FlatUnit& unit) const {
        return unit.num_sections() > 1 ? mesh_.section_zero() : mesh_.zero();
    }
    comm::Communicator& copies_of(const FlatUnit&) const { return mesh_.replicate(); }
    comm::Communicator& users_of(const FlatUnit& unit) const {
        return unit.num_sections() > 1 ? mesh_.section_world() : mesh_.world();
    }
    // The part of the flat buffer that this rank computes with: all, or a section.
    Range section_of(const FlatUnit& unit) const;
    // The part of the unit that this rank holds, if it is sharded.
    int64_t part_number(const FlatUnit& unit) const;
    std::vector<Range> cut_shards(const Placement& placement) const;
    const Chunks& chunks_of(size_t unit) const { return shelf_of_[unit]->chunks; }
    void add_gradient_squares(size_t unit, std::vector<at::Tensor>& squares) const;
    void gather(size_t unit);
    void gather_ahead();
    void begin_gradient(size_t unit);
    void start_reduction(size_t unit);
    void record_bytes_under_way();
    void finish_oldest_reduction();
    void add_to_shard(const Reduction& reduction);
    void sum_other_copies();
    void start_sum_of_copies(const Shelf& shelf, size_t chunk, at::Tensor numbers);
    void finish_oldest_sum_of_copies();
    void wait_for_weights() const;
    at::Tensor as_sent(const at::Tensor& gradient) const;
    at::TensorOptions options(at::ScalarType type) const;

    std::vector<FlatUnit> units_;
    mesh::Cuts cuts_;
    Types types_;
    const mesh::Mesh& mesh_;
    std::vector<UnitState> states_;
    std::deque<Shelf> shelves_;
    std::vector<const Shelf*> shelf_of_;  // each unit
    std::vector<size_t> order_;           // of the pass
    size_t place_ = 0;                    // in it, of the unit that comes next
    bool is_last_micro_batch_ = false;
    int64_t most_bytes_under_way_ = 0;
    bool is_rounded_ = false;
    bool computes_with_masters_ = false;
    bool frozen_are_whole_ = false;  // at rest, where only the optimizer is sharded
    Pool weight_buffers_;
    Pool gradient_buffers_;
    std::deque<Reduction> reductions_;
    std::deque<SumOfCopies> sums_of_copies_;
};

}  // namespace ringshard::shard

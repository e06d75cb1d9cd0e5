#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "ringshard/offload/depot.hpp"
#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

// What is worked on at a time of what a rank holds: a range of one unit's flat buffer.
struct Slot {
    size_t unit;
    Range range;
};

// The shards of all units in slots, in order. A slot is a whole shard where everything is in
// memory, and at most `most` elements where something comes from a depot.
class Slots {
public:
    static constexpr int64_t whole_shards = 0;
    Slots(const std::vector<Range>& shards, int64_t most);

    size_t size() const { return slots_.size(); }
    const Slot& operator[](size_t slot) const { return slots_[slot]; }
    auto begin() const { return slots_.begin(); }
    auto end() const { return slots_.end(); }

    const Range& shard(size_t unit) const { return shards_[unit]; }
    size_t num_units() const { return shards_.size(); }
    // The slots of a unit: [first, end).
    size_t first_of(size_t unit) const { return first_[unit]; }
    size_t end_of(size_t unit) const { return first_[unit + 1]; }

private:
    std::vector<Range> shards_;
    std::vector<Slot> slots_;
    std::vector<size_t> first_;  // of every unit, and one past the last
};

// What the numbers of a slot are when they are taken: what was put back last, or anything, because
// all of them will be overwritten.
enum class Content { kept, overwritten };

// One kind of number (weights, gradients, a moment) of all shards, in memory or in a depot. Whoever
// changes what he took puts it back; slots that are taken in order are read ahead.
class FlatStore {
public:
    virtual ~FlatStore() = default;
    virtual at::Tensor take(size_t slot, Content content) = 0;
    virtual void put_back(size_t slot, at::Tensor numbers) = 0;

    // The whole shard of a unit, to read. expect() says that it will soon be wanted.
    virtual void expect(size_t unit) = 0;
    virtual at::Tensor take_shard(size_t unit) = 0;

    virtual at::ScalarType type() const = 0;
    virtual int64_t bytes() const = 0;  // at rest, in memory

protected:
    FlatStore() = default;
    FlatStore(const FlatStore&) = delete;
    FlatStore& operator=(const FlatStore&) = delete;
};

// `shards`: of every unit. `slots` must outlive the store.
std::unique_ptr<FlatStore> keep_in_memory(const Slots& slots, std::vector<at::Tensor> shards);

// Both must outlive the store.
std::unique_ptr<FlatStore> keep_in_depot(const Slots& slots, at::ScalarType type,
                                         offload::Depot& depot);

}  // namespace ringshard::shard

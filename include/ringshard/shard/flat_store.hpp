#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "ringshard/offload/offload_store.hpp"
#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

// The unit of work on the shards of a rank: a range of one unit's flat buffer.
struct Chunk {
    size_t unit;
    Range range;
};

// The shards of all units, divided into chunks, in order. A chunk is a whole shard if everything is
// in memory, and at most `most` elements if something is offloaded.
class Chunks {
public:
    static constexpr int64_t whole_shards = 0;
    Chunks(const std::vector<Range>& shards, int64_t most);

    // The same chunks, in blocks of so many elements, of which all ranges are multiples.
    Chunks of_blocks(int64_t elements) const;

    size_t size() const { return chunks_.size(); }
    const Chunk& operator[](size_t chunk) const { return chunks_[chunk]; }
    auto begin() const { return chunks_.begin(); }
    auto end() const { return chunks_.end(); }

    const Range& shard(size_t unit) const { return shards_[unit]; }
    size_t num_units() const { return shards_.size(); }
    // The chunks of a unit: [first, end).
    size_t first_of(size_t unit) const { return first_[unit]; }
    size_t end_of(size_t unit) const { return first_[unit + 1]; }

private:
    std::vector<Range> shards_;
    std::vector<Chunk> chunks_;
    std::vector<size_t> first_;  // of every unit, and one past the last
};

// read: load() returns the values stored last. overwrite: it may return any values, because the
// caller writes all of them.
enum class Access { read, overwrite };

// One kind of number (weights, gradients, a moment) of all shards, in memory or offloaded. Call
// store() after changing what load() returned. Chunks that are loaded in order are read ahead.
class FlatStore {
public:
    virtual ~FlatStore() = default;
    virtual at::Tensor load(size_t chunk, Access access) = 0;
    virtual void store(size_t chunk, at::Tensor numbers) = 0;

    // load_shard() returns the whole shard of a unit, to read; prefetch() starts to read it.
    virtual void prefetch(size_t unit) = 0;
    virtual at::Tensor load_shard(size_t unit) = 0;

    virtual at::ScalarType type() const = 0;
    virtual int64_t bytes() const = 0;  // at rest, in memory

protected:
    FlatStore() = default;
    FlatStore(const FlatStore&) = delete;
    FlatStore& operator=(const FlatStore&) = delete;
};

// `shards`: of every unit. `chunks` must outlive the store.
std::unique_ptr<FlatStore> keep_in_memory(const Chunks& chunks, std::vector<at::Tensor> shards);

// Both must outlive the store.
std::unique_ptr<FlatStore> keep_offloaded(const Chunks& chunks, at::ScalarType type,
                                          offload::OffloadStore& offload_store);

}  // namespace ringshard::shard

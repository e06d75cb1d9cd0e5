#pragma once

#include <filesystem>
#include <vector>

#include "ringshard/base/byte_counter.hpp"
#include "ringshard/base/exit_code.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/shard/zero.hpp"

// Transfers weights and optimizer states between the shards of a rank and the datasets of a file.
namespace ringshard::checkpoint {

// Returns the tensors of a unit that a checkpoint holds; empty for a frozen unit.
std::span<const shard::PlacedTensor> trained_tensors(const shard::FlatUnit& unit);

// Returns all datasets of the state, whichever rank writes them.
std::vector<DatasetSpec> all_datasets(const shard::Zero& zero, const optim::Optimizer& optimizer,
                                      Contents contents);

// Loads a chunk once for consecutive tensors in it.
class ChunkReader {
public:
    const at::Tensor& take(shard::FlatStore& shards, size_t chunk) {
        if (!numbers_.defined() || &shards != shards_ || chunk != chunk_) {
            numbers_ = shards.load(chunk, shard::Access::read);
            shards_ = &shards;
            chunk_ = chunk;
        }
        return numbers_;
    }

private:
    const shard::FlatStore* shards_ = nullptr;
    size_t chunk_ = 0;
    at::Tensor numbers_;
};

// Contiguous elements of a tensor that this rank writes, from its shards or from a copy of them.
struct OwnPiece {
    struct Part {  // contiguous elements of one chunk
        size_t chunk;
        int64_t before;
        int64_t count;
    };
    std::string dataset;
    int64_t first;  // element of the tensor
    int64_t count;
    ElementType type;
    shard::FlatStore* shards;
    std::vector<Part> parts;
    at::Tensor copy{};  // flat, in host memory

    int64_t bytes() const { return count * bytes_of(type); }
    // Calls visit(numbers) on consecutive flat tensors of its type, on any device.
    template <class Visit>
    void for_numbers(ChunkReader& chunks, Visit visit) const {
        if (copy.defined()) return visit(copy);
        for (const Part& part : parts)
            visit(chunks.take(*shards, part.chunk).narrow(0, part.before, part.count));
    }
};
// Returns all pieces of this rank, in an order that suits the read-ahead of chunks.
std::vector<OwnPiece> own_pieces(const shard::Zero& zero, const optim::Optimizer& optimizer,
                                 Contents contents);

// Collective over the group.
StateFile broadcast_layout(const StateFile& state, const comm::Group& group);

// Loads all shards; the weights alone without an optimizer. If a tensor has fewer rows in the
// checkpoint than in `zero`, its other rows stay unchanged. `variant`: the one that is loaded
// alone. Adds the bytes to `bytes`.
std::optional<Failure> read_shards(const Checkpoint& checkpoint, shard::Zero& zero,
                                   const optim::Optimizer* optimizer, ByteCounter& bytes,
                                   std::optional<size_t> variant = std::nullopt);

}  // namespace ringshard::checkpoint

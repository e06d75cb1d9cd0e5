#pragma once

#include <filesystem>
#include <vector>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/optim/adamw.hpp"
#include "ringshard/shard/zero.hpp"

// Between the shards of a rank and the datasets of a file: weights and both moments of every
// tensor.
namespace ringshard::checkpoint {

inline constexpr int64_t format_version = 2;

// Every dataset of the state, whoever writes it; with moments of this type.
std::vector<DatasetSpec> all_datasets(const std::vector<shard::FlatUnit>& units, Extent extent,
                                      ElementType moments);
ElementType type_of_moments(const optim::AdamW& optimizer);

// Neighbouring elements of a tensor that this rank writes.
struct OwnPiece {
    std::string dataset;
    int64_t first;  // element of the tensor
    // Where they are: in memory or in a file, until they have been copied.
    shard::FlatStore* shards;
    size_t unit;
    shard::Range range;
    at::Tensor copy{};

    int64_t bytes() const;
    // `count` of them from the `begin`th on, in the type in which they are written.
    at::Tensor numbers(int64_t begin, int64_t count) const;
};
// All of this rank, as they are.
std::vector<OwnPiece> own_pieces(const shard::Zero& zero, const optim::AdamW& optimizer,
                                 Extent extent);

// So many elements at a time: what was looked at and hashed is still near the processor when it is
// written, and what is not in host memory needs no more room than this.
inline constexpr int64_t piece_chunk = int64_t{1} << 20;

// work(first element, count) for every chunk of a piece, until one of them fails.
template <class Work>
std::optional<Failure> for_each_chunk(const OwnPiece& piece, const Work& work) {
    for (int64_t done = 0; done < piece.range.size(); done += piece_chunk)
        if (auto failure = work(done, std::min(piece_chunk, piece.range.size() - done)))
            return failure;
    return std::nullopt;
}

// Collective over the group.
StateFile broadcast_layout(const StateFile& state, const comm::Group& group);

// Without an optimizer, the weights alone.
std::optional<Failure> read_shards(const Checkpoint& checkpoint, shard::Zero& zero,
                                   optim::AdamW* optimizer);

}  // namespace ringshard::checkpoint

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
ElementType type_of_moments(optim::AdamW& optimizer);

// Neighbouring elements of a tensor that this rank writes.
struct OwnPiece {
    std::string dataset;
    int64_t first;       // element of the tensor
    at::Tensor numbers;  // flat, of the type in the file
};
// All of this rank, as they are.
std::vector<OwnPiece> own_pieces(const shard::Zero& zero, optim::AdamW& optimizer, Extent extent);

// Collective over the group.
StateFile broadcast_layout(const StateFile& state, const comm::Group& group);

// Without an optimizer, the weights alone.
std::optional<Failure> read_shards(const Checkpoint& checkpoint, shard::Zero& zero,
                                   optim::AdamW* optimizer);

}  // namespace ringshard::checkpoint

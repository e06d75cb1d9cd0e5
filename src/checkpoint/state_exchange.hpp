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

inline constexpr const char* state_name = "state.h5";
inline constexpr const char* weights_group = "/model/";
inline constexpr int64_t format_version = 1;

// Every dataset of the state, whoever writes it.
std::vector<DatasetSpec> all_datasets(const std::vector<shard::FlatUnit>& units, Extent extent);
std::optional<Failure> check_datasets(const std::filesystem::path& file, const StateFile& state,
                                      const std::vector<shard::FlatUnit>& units, Extent extent);

// Collective over the group.
StateFile broadcast_layout(const StateFile& state, const comm::Group& group);

// Writes and flushes this rank's ranges; adds them to `ranges`.
std::optional<Failure> write_ranges(const std::filesystem::path& file, const StateFile& layout,
                                    const shard::Zero& zero, optim::AdamW& optimizer,
                                    std::vector<WrittenRange>& ranges);
// Without an optimizer, the weights alone.
std::optional<Failure> read_ranges(const std::filesystem::path& file, const StateFile& state,
                                   shard::Zero& zero, optim::AdamW* optimizer);

}  // namespace ringshard::checkpoint

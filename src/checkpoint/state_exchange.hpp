#pragma once

#include <filesystem>
#include <vector>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/checkpoint/state_file.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/optim/adamw.hpp"
#include "ringshard/shard/zero.hpp"

// Between the shards of a rank and the datasets of a file: weights and both moments of every
// tensor.
namespace ringshard::checkpoint {

// Every dataset of the state, whoever writes it.
std::vector<DatasetSpec> all_datasets(const std::vector<shard::FlatUnit>& units);
std::optional<Failure> check_datasets(const std::filesystem::path& file, const StateFile& state,
                                      const std::vector<shard::FlatUnit>& units);

// Collective over the group.
StateFile broadcast_layout(const StateFile& state, const comm::Group& group);

// Writes and flushes this rank's ranges; adds them to `ranges`.
std::optional<Failure> write_ranges(const std::filesystem::path& file, const StateFile& layout,
                                    const shard::Zero& zero, optim::AdamW& optimizer,
                                    std::vector<WrittenRange>& ranges);
std::optional<Failure> read_ranges(const std::filesystem::path& file, const StateFile& state,
                                   shard::Zero& zero, optim::AdamW& optimizer);

}  // namespace ringshard::checkpoint

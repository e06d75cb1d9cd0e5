#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/byte_counter.hpp"
#include "ringshard/checkpoint/frozen_weights.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/checkpoint/state_file.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/shard/tensor_sums.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::checkpoint {

// Where a run stands, beside its tensors.
struct Progress {
    int64_t step = 0;
    data::LoaderState data;
    int64_t num_tokens = 0;
};

// Where the elements of every dataset lie, without the hashes: what loading needs of a manifest.
struct StoredParts {
    struct Part {
        int64_t first;   // element of the dataset with which it begins
        int64_t file;    // index into `files`
        int64_t offset;  // of its first byte there
        int64_t length;  // bytes
    };
    std::vector<std::string> files;
    std::map<std::string, std::vector<Part>> parts;  // by dataset, in the order of elements
};

// A checkpoint that was looked through and found whole.
struct Checkpoint {
    std::filesystem::path folder;
    StateFile state;
    Progress progress{};
    StoredParts stored{};
};

// How much of a checkpoint is wanted: what is not may be damaged, or missing.
enum class Contents { everything, weights };

// What it holds.
Contents contents_of(const Checkpoint& checkpoint);

// How closely it is looked at: what is there and how large it is, or the hash of every byte too.
enum class Verification { sizes, hashes };

// Looks through the folder of a checkpoint. A failure means damage. Collective over the group.
comm::Agreed<Checkpoint> check_checkpoint(const std::filesystem::path& folder, Contents contents,
                                          Verification verification, const comm::Group& group);

// Fails unless the checkpoint holds the weights of these units and no others.
std::optional<Failure> check_fit(const Checkpoint& checkpoint,
                                 const std::vector<shard::FlatUnit>& units);
// Fails unless it holds these states of an optimizer for every weight.
std::optional<Failure> check_states(const Checkpoint& checkpoint,
                                    const std::vector<shard::FlatUnit>& units,
                                    const std::vector<std::string>& state_names);

// Fails (78) where a tensor is trained in the checkpoint and frozen in these units, or the reverse.
std::optional<Failure> check_roles(const Checkpoint& checkpoint, const FrozenWeights& frozen,
                                   const std::vector<shard::FlatUnit>& units);

// Returns a reader of the weights that a checkpoint holds. The arguments must outlive it.
shard::ReadWeight reader_of(const Checkpoint& checkpoint, ByteCounter& bytes);

// Fills this rank's shards with weights; rows that the checkpoint does not have stay as they are.
// Collective over the group.
std::optional<comm::AgreedFailure> load_weights(const Checkpoint& checkpoint, shard::Zero& zero,
                                                const comm::Group& group);

}  // namespace ringshard::checkpoint

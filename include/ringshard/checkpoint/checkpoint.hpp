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
#include "ringshard/optim/plateau.hpp"
#include "ringshard/optim/update_groups.hpp"
#include "ringshard/shard/tensor_sums.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::checkpoint {

// Sums over the steps of a run so far, of all attempts.
struct RunSums {
    double loss = 0;         // of the steps that were not skipped
    int64_t num_losses = 0;  // the number of these
    double operations = 0;
};

// Position of a run, besides its tensors.
struct Progress {
    int64_t step = 0;
    std::optional<RunSums> sums{};  // checkpoints of earlier versions have none
    struct OfLearner {
        data::LoaderState data;
        int64_t num_tokens = 0;
        std::optional<int64_t> last_step{};  // if it has ended before the steps of its settings
        std::optional<RunSums> sums{};
        std::optional<optim::PlateauState> plateau{};  // of lr_scheduler_type reduce_lr_on_plateau
    };
    std::vector<OfLearner> learners{};  // in the order of the run; empty before its first step

    int64_t num_tokens() const {
        int64_t all = 0;
        for (const OfLearner& learner : learners) all += learner.num_tokens;
        return all;
    }
};

// Locations of all elements of the datasets, without the hashes: the part of a manifest that
// loading needs.
struct StoredParts {
    struct Part {
        int64_t first;   // its first element in the dataset
        int64_t file;    // index into `files`
        int64_t offset;  // of its first byte in the file
        int64_t length;  // bytes
    };
    std::vector<std::string> files;
    std::map<std::string, std::vector<Part>> parts;  // by dataset, in the order of elements
};

// A verified checkpoint.
struct Checkpoint {
    std::filesystem::path folder;
    StateFile state;
    Progress progress{};
    StoredParts stored{};
};

// The part of a checkpoint that a caller needs; the rest may be damaged or missing.
enum class Contents { everything, weights };

// Returns the part that a checkpoint holds.
Contents contents_of(const Checkpoint& checkpoint);

// Depth of the verification: presence and size of files, or also the hash of every byte.
enum class Verification { sizes, hashes };

// Verifies the folder of a checkpoint. A failure means damage. Collective over the group.
comm::Agreed<Checkpoint> check_checkpoint(const std::filesystem::path& folder, Contents contents,
                                          Verification verification, const comm::Group& group);

// Fails unless the checkpoint holds the weights of exactly these units.
std::optional<Failure> check_fit(const Checkpoint& checkpoint,
                                 const std::vector<shard::FlatUnit>& units);
// Fails unless the checkpoint holds these optimizer states for every weight.
std::optional<Failure> check_states(const Checkpoint& checkpoint,
                                    const std::vector<shard::FlatUnit>& units,
                                    const optim::UpdateGroups& groups);

// Fails (78) if a tensor is trained in the checkpoint but frozen in these units, or the reverse.
std::optional<Failure> check_roles(const Checkpoint& checkpoint, const FrozenWeights& frozen,
                                   const std::vector<shard::FlatUnit>& units);

// Returns a reader of the checkpoint's weights. The arguments must outlive it.
shard::ReadWeight reader_of(const Checkpoint& checkpoint, ByteCounter& bytes);

// Loads the weights of a variant into this rank's shards; rows that the checkpoint does not have
// stay unchanged. Collective over the group.
std::optional<comm::AgreedFailure> load_weights(const Checkpoint& checkpoint, shard::Zero& zero,
                                                const comm::Group& group, size_t variant);

}  // namespace ringshard::checkpoint

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/optim/adamw.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::checkpoint {

// Where a run stands, beside its tensors.
struct Progress {
    int64_t step = 0;
    data::LoaderState data;
    int64_t num_tokens = 0;
};

// The checkpoints of one run. Nobody gathers: every rank writes its own ranges of one file that
// holds every tensor whole, and any number of ranks reads it back, cut in any way.
class Store {
public:
    // Claims the next attempt of the run. Collective over the world.
    static Expected<Store> open(std::filesystem::path output_dir, const comm::Group& world);

    int64_t attempt() const { return attempt_; }
    const std::filesystem::path& output_dir() const { return output_dir_; }

    // The newest valid checkpoint. Collective over the world.
    std::optional<CheckpointEntry> newest(std::vector<std::string>& warnings) const;
    // From which step this attempt goes on; before it writes anything. Collective over the world.
    std::optional<Failure> record_start(int64_t step) const;

    // A checkpoint is there, whole, when this returns, or it is not there at all. `files` are
    // copied beside the state (config.json, tokenizer); `texts` go into it. Collective over the
    // world.
    std::optional<Failure> save(const Progress& progress, const shard::Zero& zero,
                                optim::AdamW& optimizer,
                                const std::vector<std::filesystem::path>& files,
                                const std::map<std::string, std::string>& texts) const;

    // Fills this rank's shards. Collective over the world.
    Expected<Progress> load(const std::filesystem::path& checkpoint, shard::Zero& zero,
                            optim::AdamW& optimizer) const;

private:
    Store(std::filesystem::path output_dir, int64_t attempt, const comm::Group& world)
        : output_dir_(std::move(output_dir)), attempt_(attempt), world_(world) {}

    std::filesystem::path output_dir_;
    int64_t attempt_;
    const comm::Group& world_;
};

}  // namespace ringshard::checkpoint

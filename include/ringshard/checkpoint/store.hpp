#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/optim/optimizer.hpp"

namespace ringshard::checkpoint {

// Reads the checkpoints of a run, with any number of ranks, however they shard it. All functions
// are collective over the world.
class Reader {
public:
    Reader(std::filesystem::path output_dir, const comm::Group& world)
        : output_dir_(std::move(output_dir)), world_(world) {}

    const std::filesystem::path& output_dir() const { return output_dir_; }

    // Returns the newest whole checkpoint from which a run of num_steps steps can resume; nothing
    // if no checkpoint exists. Weights alone suffice if no step is left. Skips damaged ones with a
    // warning; fails if no other remains.
    comm::Agreed<std::optional<Checkpoint>> newest(int64_t num_steps, Verification verification,
                                                   std::vector<std::string>& warnings) const;
    comm::Agreed<Checkpoint> check(const std::filesystem::path& folder,
                                   Verification verification) const;
    // Fills this rank's shards with all that the checkpoint holds.
    std::optional<comm::AgreedFailure> load(const Checkpoint& checkpoint, shard::Zero& zero,
                                            optim::Optimizer& optimizer) const;

private:
    std::filesystem::path output_dir_;
    const comm::Group& world_;
};

// An attempt that this job owns and may write. All functions are collective over the world.
class Store {
public:
    // Calls `claim` on rank 0, then removes files that earlier attempts left unfinished.
    static comm::Agreed<Store> open(const comm::Group& world,
                                    const std::function<Expected<Claim>()>& claim);

    const Claim& claim() const { return claim_; }
    int64_t attempt() const { return claim_.attempt; }
    const std::filesystem::path& output_dir() const { return claim_.output_dir; }

    // Records the step from which this attempt resumes, before it writes anything else. This makes
    // checkpoints of later steps void, and renames them.
    std::optional<comm::AgreedFailure> record_start(int64_t step) const;

private:
    Store(Claim claim, const comm::Group& world) : claim_(std::move(claim)), world_(world) {}

    Claim claim_;
    const comm::Group& world_;
};

}  // namespace ringshard::checkpoint

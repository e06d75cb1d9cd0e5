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

// Reads the checkpoints of a run. Any number of ranks reads one, cut in any way. Everything is
// collective over the world.
class Reader {
public:
    Reader(std::filesystem::path output_dir, const comm::Group& world)
        : output_dir_(std::move(output_dir)), world_(world) {}

    const std::filesystem::path& output_dir() const { return output_dir_; }

    // The newest checkpoint that is whole and that a run of so many steps can go on from; nothing
    // if there is none at all. Weights alone will do where no step is left. Damaged ones are
    // stepped over, with a warning; it fails if that leaves none.
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

// An attempt that this job has claimed, and so may write. Everything is collective over the world.
class Store {
public:
    // Calls `claim` on rank 0, then removes the files that earlier attempts left unfinished.
    static comm::Agreed<Store> open(const comm::Group& world,
                                    const std::function<Expected<Claim>()>& claim);

    const Claim& claim() const { return claim_; }
    int64_t attempt() const { return claim_.attempt; }
    const std::filesystem::path& output_dir() const { return claim_.output_dir; }

    // Records from which step this attempt goes on, before it writes anything else. Checkpoints of
    // later steps are void from then on, and lose their names.
    std::optional<comm::AgreedFailure> record_start(int64_t step) const;

private:
    Store(Claim claim, const comm::Group& world) : claim_(std::move(claim)), world_(world) {}

    Claim claim_;
    const comm::Group& world_;
};

}  // namespace ringshard::checkpoint

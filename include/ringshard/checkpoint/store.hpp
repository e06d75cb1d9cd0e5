#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/optim/adamw.hpp"

namespace ringshard::checkpoint {

// The checkpoints of one run. Any number of ranks reads one, cut in any way. Everything is
// collective over the world.
class Store {
public:
    // Claims the next attempt of the run, and takes away what earlier ones left unfinished.
    // `before`: of this process, which the new one follows (claim_attempt).
    static comm::Agreed<Store> open(const std::filesystem::path& output_dir,
                                    const comm::Group& world, const Store* before = nullptr);

    const Claim& claim() const { return claim_; }
    int64_t attempt() const { return claim_.attempt; }
    const std::filesystem::path& output_dir() const { return claim_.output_dir; }

    // The newest checkpoint that is whole and that a run of so many steps can go on from; nothing
    // if there is none at all. Weights alone will do where no step is left. Damaged ones are
    // stepped over, with a warning; it fails if that leaves none.
    comm::Agreed<std::optional<Checkpoint>> newest(int64_t num_steps, Scrutiny scrutiny,
                                                   std::vector<std::string>& warnings) const;
    comm::Agreed<Checkpoint> check(const std::filesystem::path& folder, Scrutiny scrutiny) const;
    // Fills this rank's shards with all that the checkpoint holds.
    std::optional<comm::AgreedFailure> load(const Checkpoint& checkpoint, shard::Zero& zero,
                                            optim::AdamW& optimizer) const;

    // Records from which step this attempt goes on, before it writes anything else. Checkpoints of
    // later steps are void from then on, and lose their names.
    std::optional<comm::AgreedFailure> record_start(int64_t step) const;

private:
    Store(Claim claim, const comm::Group& world) : claim_(std::move(claim)), world_(world) {}

    Claim claim_;
    const comm::Group& world_;
};

}  // namespace ringshard::checkpoint

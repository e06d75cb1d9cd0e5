#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringshard/checkpoint/liveness.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/loss_fingerprint.hpp"

namespace ringshard::run {

// Fails if output_dir cannot be made, or nothing can be written into it; makes nothing. Collective
// over the world.
std::optional<comm::AgreedFailure> check_output_dir(const CommandContext& context);

// Claims output_dir for a start. begin() reads the state of the folder, claim() comes last, so that
// a start that fails ends no job that runs there.
class RunEntry {
public:
    // Creates output_dir. Fails (78) if another job runs in it that this start may not replace.
    // Collective over the world.
    static comm::Agreed<RunEntry> begin(const CommandContext& context,
                                        const LossFingerprint& fingerprint);

    // Returns true if SLURM has requeued this job, and the newest attempt is its own.
    bool follows_itself() const { return follows_itself_; }
    // On rank 0.
    Expected<checkpoint::Claim> claim() { return claimant_->claim(); }
    Expected<std::unique_ptr<checkpoint::AliveFile>> begin_alive_file(
        const checkpoint::Claim& claim) const {
        return checkpoint::AliveFile::begin(claim, claimant_->me());
    }
    // Returns true if another attempt has saved a checkpoint since begin(). Collective over the
    // world.
    bool finds_other_checkpoints(const comm::Group& world) const;

private:
    RunEntry() = default;

    std::optional<checkpoint::Claimant> claimant_;  // on rank 0
    std::filesystem::path output_dir_;
    std::vector<std::string> checkpoints_;  // on rank 0: those that begin() saw
    bool follows_itself_ = false;
};

}  // namespace ringshard::run

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/crash_report.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/loss_fingerprint.hpp"
#include "ringshard/run/pretrained.hpp"
#include "ringshard/run/run_adapters.hpp"
#include "ringshard/run/run_entry.hpp"
#include "ringshard/train/training_loop.hpp"
#include "ringshard/watch/watchdog.hpp"

namespace ringshard::run {

// The sources of weights, moments and the position of the run. Without a checkpoint all weights
// come from the pretrained model; with one, only the frozen weights do, and without frozen weights
// there is no `pretrained`.
struct Origin {
    std::optional<Pretrained> pretrained{};
    std::optional<checkpoint::Checkpoint> checkpoint{};
};

// The loaded state of a run.
struct LoadedState {
    checkpoint::Progress progress{};
    checkpoint::FrozenWeights frozen{};
};

// first: this job starts the run for the first time. restart: after a rewind, in the same process,
// or after SLURM has requeued the job; the newest checkpoint of the run then comes before
// resume_from_checkpoint.
enum class StartKind { first, restart };

// The parts of a run that no rewind changes.
struct RunStart {
    const CommandContext& context;
    const std::filesystem::path& model;
    const model::ModelSpec& spec;
    const AskedAdapters& adapters;
    const LossFingerprint& fingerprint;
    int64_t num_steps;
};

// An attempt of this job (checkpoint/attempts.hpp).
struct Attempt {
    Attempt(checkpoint::Store its_store, std::unique_ptr<checkpoint::AliveFile> its_alive_file,
            const comm::Group& world);
    checkpoint::Store store;
    std::unique_ptr<checkpoint::AliveFile> alive_file;  // on rank 0
    comm::CrashReport crash_report;
};

// Finds the checkpoint or model to start from, and verifies it: names and shapes are those of the
// model, and no setting in the fingerprint has changed, unless allow_changed is set. Allocates
// nothing large. Collective over the world.
comm::Agreed<Origin> find_origin(const RunStart& start, StartKind kind);

// Returns the verification of checkpoints that the settings name.
checkpoint::Verification verification_of(const CommandContext& context);

// Claims the next attempt: through `entry` if this process has none yet, else the one after its
// own. From then on other jobs in the folder end. Collective over the world.
std::optional<comm::AgreedFailure> claim_attempt(std::optional<Attempt>& attempt, RunEntry& entry,
                                                 const comm::Group& world,
                                                 watch::Watchdog& watchdog);

// Returns the failure that a newer attempt explains where there is one, since that attempt removes
// files under this one's hands; else `failure`. Collective over the world.
comm::AgreedFailure unless_superseded(const Attempt& attempt, const comm::AgreedFailure& failure,
                                      const comm::Group& world);

// Records the end of the attempt. If the file cannot be written, prints a warning.
void note_end(const Attempt& attempt, const comm::Agreed<train::Ending>& ending,
              const comm::Group& world);

// Fills the shards of this rank, and returns the position of the run. Fails (65) if the frozen
// weights are not those that the checkpoint names. Collective over the world.
comm::Agreed<LoadedState> load_state(const CommandContext& context, const Origin& origin,
                                     const model::ModelSpec& spec, shard::Zero& zero,
                                     optim::Optimizer& optimizer);

// Reads the files beside the weights of a model folder at the start, so that the run does not need
// the folder at its end. On rank 0; elsewhere empty. Collective over the world.
comm::Agreed<std::map<std::string, std::string>> read_sidecar_files(
    const comm::Group& world, const std::filesystem::path& folder);

}  // namespace ringshard::run

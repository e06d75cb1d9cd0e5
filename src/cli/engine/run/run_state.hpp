#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "loss_fingerprint.hpp"
#include "pretrained.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/cli/engine.hpp"
#include "ringshard/comm/crash_report.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/train/training_loop.hpp"
#include "ringshard/watch/watchdog.hpp"
#include "run_adapters.hpp"
#include "run_entry.hpp"

namespace ringshard::cli {

// Where weights, moments and the place of the run come from. All weights come from the pretrained
// model where there is no checkpoint of this run, else those that are frozen. Without frozen
// weights there is the one or the other.
struct Origin {
    std::optional<Pretrained> pretrained{};
    std::optional<checkpoint::Checkpoint> checkpoint{};
};

// The loaded state of a run.
struct LoadedState {
    checkpoint::Progress progress{};
    checkpoint::FrozenWeights frozen{};
};

// `first`: this job begins the run for the first time. A run begins again after a rewind, in the
// same process, or after SLURM has requeued it: its own newest checkpoint then comes before
// resume_from_checkpoint.
enum class Time { first, again };

// The constant parts of a run, at every start and rewind.
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

// Finds the checkpoint or model to go on from, and verifies it: names and shapes are those of the
// model, and no setting has changed that shapes the fingerprint, unless that is allowed. Allocates
// nothing large. Collective over the world.
comm::Agreed<Origin> find_origin(const RunStart& start, Time time);

// How a checkpoint is verified before it is used, as the settings have it.
checkpoint::Verification verification_of(const CommandContext& context);

// Claims the next attempt: with the entry, where this process has none yet, else the one after its
// own. Other jobs that run there end from now on. Collective over the world.
std::optional<comm::AgreedFailure> claim_attempt(std::optional<Attempt>& attempt, RunEntry& entry,
                                                 const comm::Group& world,
                                                 watch::Watchdog& watchdog);

// Records how the attempt ended. If the file cannot be written, a warning says so and the run goes
// on.
void note_end(const Attempt& attempt, const comm::Agreed<train::Ending>& ending,
              const comm::Group& world);

// Fills the shards of this rank, and returns where the run goes on. Fails (65) where the frozen
// weights are not those that the checkpoint names. Collective over the world.
comm::Agreed<LoadedState> load_state(const CommandContext& context, const Origin& origin,
                                     const model::ModelSpec& spec, shard::Zero& zero,
                                     optim::Optimizer& optimizer);

// The files of a model folder that belong beside its weights, as they are now: a folder that
// vanishes later ends no run. On rank 0; elsewhere empty. Collective over the world.
comm::Agreed<std::map<std::string, std::string>> read_sidecar_files(
    const comm::Group& world, const std::filesystem::path& folder);

}  // namespace ringshard::cli

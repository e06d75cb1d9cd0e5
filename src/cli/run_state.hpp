#pragma once

#include <optional>
#include <vector>

#include "curve.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/cli/engine.hpp"
#include "ringshard/comm/crash_report.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/safetensors.hpp"
#include "ringshard/train/training_loop.hpp"
#include "ringshard/watch/watchdog.hpp"

namespace ringshard::cli {

// Where weights, moments and the place of the run come from: a checkpoint of this run, or a
// pretrained model, which may be a checkpoint of another run.
struct Origin {
    std::optional<checkpoint::Checkpoint> checkpoint{};
    std::optional<model::StoredModel> pretrained{};
    std::optional<checkpoint::Checkpoint> pretrained_checkpoint{};
};

// Is it the first time that this process begins the run, or does it begin again because numbers
// went bad? Then its own newest checkpoint comes before what the settings ask for.
enum class Time { first, again };

// What a run is, every time it begins.
struct RunStart {
    const EngineCall& call;
    const std::filesystem::path& model;
    const model::ModelSpec& spec;
    const Curve& curve;
    int64_t num_steps;
};

// One start of the run (checkpoint/attempts.hpp), and where its state comes from.
struct Attempt {
    Attempt(checkpoint::Store its_store, const comm::Group& world);
    checkpoint::Store store;
    comm::CrashReport crash_report;
    Origin origin;
};

// Claims the next attempt, in the place of one that may be there, and finds what the settings ask
// to go on from, looked through: names and shapes are those of the model, and nothing has changed
// that would change the curve, unless that is allowed. Before anything large is allocated.
// Collective over the world.
std::optional<comm::AgreedFailure> begin_attempt(std::optional<Attempt>& attempt,
                                                 const RunStart& start, Time time,
                                                 watch::Watchdog& watchdog);

// Leaves a word on how the attempt ended. What cannot be written is told, and changes nothing.
void note_end(const Attempt& attempt, const comm::Agreed<train::Ending>& ending,
              const comm::Group& world);

// Fills the shards of this rank, and tells the run where it goes on. Collective over the world.
comm::Agreed<checkpoint::Progress> load_state(const EngineCall& call, const Origin& origin,
                                              const checkpoint::Store& store, bool tied,
                                              shard::Zero& zero, optim::AdamW& optimizer);

// The files of a model folder that belong beside its weights, as they are now: a folder that
// vanishes later ends no run. On rank 0; elsewhere empty. Collective over the world.
comm::Agreed<std::map<std::string, std::string>> read_companions(
    const comm::Group& world, const std::filesystem::path& folder);

}  // namespace ringshard::cli

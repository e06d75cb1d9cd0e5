#pragma once

#include <optional>
#include <vector>

#include "curve.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/cli/engine.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/safetensors.hpp"

namespace ringshard::cli {

// Where weights, moments and the place of the run come from: a checkpoint, or a pretrained model.
struct Origin {
    std::optional<checkpoint::Checkpoint> checkpoint;
    std::optional<model::StoredModel> pretrained;
};

// Is it the first time that this process begins the run, or does it begin again because numbers
// went bad? Then its own newest checkpoint comes before what the settings ask for.
enum class Time { first, again };

// What the settings ask to go on from, looked through: names and shapes fit the units, and nothing
// has changed that would change the curve, unless that is allowed. Before anything large is
// allocated. Collective over the world.
comm::Agreed<Origin> find_origin(const EngineCall& call, const std::filesystem::path& model,
                                 const checkpoint::Store& store, const model::ModelSpec& spec,
                                 const std::vector<shard::FlatUnit>& units, const Curve& curve,
                                 int64_t num_steps, Time time);

// Fills the shards of this rank, and tells the run where it goes on. Collective over the world.
comm::Agreed<checkpoint::Progress> load_state(const EngineCall& call, const Origin& origin,
                                              const checkpoint::Store& store, bool tied,
                                              shard::Zero& zero, optim::AdamW& optimizer);

// The files of a model folder that belong beside its weights, as they are now: a folder that
// vanishes later ends no run. On rank 0; elsewhere empty. Collective over the world.
comm::Agreed<std::map<std::string, std::string>> read_companions(
    const comm::Group& world, const std::filesystem::path& folder);

}  // namespace ringshard::cli

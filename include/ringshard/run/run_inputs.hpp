#pragma once

#include <filesystem>

#include "ringshard/base/faults.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/placement.hpp"
#include "ringshard/run/run_adapters.hpp"
#include "ringshard/run/run_data.hpp"

namespace ringshard::run {

// The model of a run.
struct RunModel {
    std::filesystem::path folder;
    model::ModelSpec spec;
    AskedAdapters adapters;  // where the settings ask for them
};

// Finds the model, which must suit the mesh. Collective over the world.
comm::Agreed<RunModel> find_model(const CommandContext& context, const HubCache& hub,
                                  const Placement& placement);

// The inputs of a run.
struct RunInputs {
    std::filesystem::path model;  // the folder
    model::ModelSpec spec;
    AskedAdapters adapters;  // where the settings ask for them
    RunData data;
};

// Finds the model and prepares the rows. Collective over the world.
comm::Agreed<RunInputs> find_inputs(const CommandContext& context, const Placement& placement,
                                    Faults& faults, RowsToKeep keeps = RowsToKeep::with_targets);

}  // namespace ringshard::run

#pragma once

#include <filesystem>

#include "placement.hpp"
#include "ringshard/base/faults.hpp"
#include "ringshard/model/model_spec.hpp"
#include "run_adapters.hpp"
#include "run_data.hpp"

namespace ringshard::cli {

// The inputs of a run.
struct RunInputs {
    std::filesystem::path model;  // the folder
    model::ModelSpec spec;
    AskedAdapters adapters;  // where the settings ask for them
    RunData data;
};

// Finds the model, which must suit the mesh, and prepares the rows. Collective over the world.
comm::Agreed<RunInputs> find_inputs(const CommandContext& context, const Placement& placement,
                                    Faults& faults, RowsToKeep keeps = RowsToKeep::with_targets);

}  // namespace ringshard::cli

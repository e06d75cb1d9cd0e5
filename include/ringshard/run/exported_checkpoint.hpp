#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/run_adapters.hpp"

namespace ringshard::run {

// A checkpoint that is exported.
struct ExportedCheckpoint {
    // Finds the newest whole checkpoint of `source`, the folder of a run or of a checkpoint.
    // `merges`: its adapter is added to the weights. Collective over the world.
    static comm::Agreed<ExportedCheckpoint> find(const comm::Group& world,
                                                 const std::filesystem::path& source, bool merges);

    bool has_several() const { return !adapters.empty() && !adapters.front().name.empty(); }
    std::vector<std::string> names() const;  // of several adapters
    bool writes_adapter() const { return !adapters.empty() && !merges; }

    checkpoint::Checkpoint checkpoint;
    model::ModelSpec spec;  // with the adapters of the checkpoint
    std::vector<StoredAdapter> adapters{};
    bool merges = false;
};

// Fails (78) if the export would write into the checkpoint, or replace a model that is not an
// export of the same run. Collective over the world.
std::optional<comm::AgreedFailure> check_export_folder(const ExportedCheckpoint& exported,
                                                       const std::filesystem::path& folder,
                                                       const comm::Group& world);

// Returns the files beside the weights of the export, with the record of its run: on rank 0.
// Collective over the world.
comm::Agreed<std::map<std::string, std::string>> files_of_export(const ExportedCheckpoint& exported,
                                                                 const comm::Group& world);

}  // namespace ringshard::run

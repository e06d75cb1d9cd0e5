#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "ringshard/checkpoint/checkpoint.hpp"

// A checkpoint of a run may be named where a model is asked for: its weights are read from its HDF5
// files, and its config.json and tokenizer lie beside them.
namespace ringshard::cli {

// Refuses the folder of a run that has not written its model, and names its newest checkpoint.
// `setting`: that names the folder.
std::optional<Failure> refuse_unfinished_run(const std::filesystem::path& folder,
                                             const std::string& setting);

// Verifies the folder as a checkpoint that fits the units. Returns nothing if it is no checkpoint.
// Collective over the group.
comm::Agreed<std::optional<checkpoint::Checkpoint>> open_as_model(
    const std::filesystem::path& folder, const std::vector<shard::FlatUnit>& units,
    checkpoint::Scrutiny scrutiny, const comm::Group& group);

}  // namespace ringshard::cli

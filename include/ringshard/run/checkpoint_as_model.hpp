#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ringshard/base/exit_code.hpp"

// A checkpoint of a run may be named in place of a model: its weights are read from its HDF5 files,
// and its config.json and tokenizer lie beside them.
namespace ringshard::run {

// Refuses the folder of a run that has not written its model, and names its newest checkpoint.
// `setting`: that names the folder.
std::optional<Failure> refuse_unfinished_run(const std::filesystem::path& folder,
                                             const std::string& setting);

}  // namespace ringshard::run

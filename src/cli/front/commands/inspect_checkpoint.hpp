#pragma once

#include <filesystem>

namespace ringshard::cli {

// A run has such folders in it.
bool is_run(const std::filesystem::path& folder);

// Prints the content of a checkpoint, and whether every byte is as it was written. Returns the exit
// code.
int inspect_checkpoint(const std::filesystem::path& folder, bool as_json);
// A line for every checkpoint of a run, newest first. Fails if none is good.
int inspect_run(const std::filesystem::path& output_dir, bool as_json);

}  // namespace ringshard::cli

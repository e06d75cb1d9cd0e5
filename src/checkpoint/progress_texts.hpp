#pragma once

#include <map>
#include <string>

#include "ringshard/checkpoint/checkpoint.hpp"

// The position of a run as the numbers and texts of a state file.
namespace ringshard::checkpoint {

std::map<std::string, int64_t> numbers_of(const Progress& progress);
std::map<std::string, std::string> texts_of(const Progress& progress);

// Reads format 3, and format 2 of earlier versions. `file`: for messages.
Expected<Progress> read_progress(const StateFile& state, const std::filesystem::path& file);

}  // namespace ringshard::checkpoint

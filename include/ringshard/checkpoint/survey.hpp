#pragma once

#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/checkpoint/state_file.hpp"

namespace ringshard::checkpoint {

// A checkpoint that one process has verified, down to the hash of every byte.
struct Survey {
    Manifest manifest;
    StateFile state;
};
Expected<Survey> survey(const std::filesystem::path& folder);

}  // namespace ringshard::checkpoint

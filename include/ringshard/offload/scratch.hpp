#pragma once

#include <optional>

#include "ringshard/offload/scratch_file.hpp"
#include "ringshard/offload/staging.hpp"

namespace ringshard::offload {

// Where a rank keeps what shall not stay in its memory: files for what the settings name, and the
// memory for what is on its way. Those who keep something there hold pointers to it.
struct Scratch {
    std::optional<ScratchFile> weights;
    std::optional<ScratchFile> optimizer;
    std::optional<ScratchFile> activations;
    Staging staging;
};

}  // namespace ringshard::offload

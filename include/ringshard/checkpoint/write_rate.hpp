#pragma once

#include <filesystem>

#include "ringshard/base/expected.hpp"

namespace ringshard::checkpoint {

// Returns the bytes per second at which this rank checks, hashes, writes and flushes a file in a
// folder, as a save does. Takes a second or two and removes the file. Ranks that measure at the
// same time share the bandwidth.
Expected<double> measure_write_rate(const std::filesystem::path& folder);

}  // namespace ringshard::checkpoint

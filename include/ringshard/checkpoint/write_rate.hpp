#pragma once

#include <filesystem>

#include "ringshard/base/expected.hpp"

namespace ringshard::checkpoint {

// Bytes a second that this rank writes into a file of its own in a folder, looked through, hashed
// and flushed as a checkpoint is. Takes a second or two; nothing of it stays. Ranks that measure at
// the same time share what there is.
Expected<double> measure_write_rate(const std::filesystem::path& folder);

}  // namespace ringshard::checkpoint

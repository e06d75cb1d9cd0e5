#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ringshard::job {

// Formats array elements as `sbatch --array` takes them: "0-3,7".
std::string array_text(const std::vector<int64_t>& ascending);

// Returns the elements of these jobs that are pending or running; nothing if squeue cannot be run.
std::optional<std::set<int64_t>> elements_in_queue(const std::vector<std::string>& job_ids);

}  // namespace ringshard::job

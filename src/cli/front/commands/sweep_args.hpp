#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::cli {

// The arguments of `trainer sweep`.
struct SweepArgs {
    std::string action;
    std::filesystem::path target;  // a sweep file, or the folder of a sweep
    std::filesystem::path runs = "runs";
    std::optional<int64_t> index;
    std::optional<int64_t> at_a_time;
    std::string metric;
    bool is_greater_better = false;
    bool as_json = false;
    bool runs_it = false;
    std::vector<std::string> for_sbatch;  // after --
};

Expected<SweepArgs> parse_sweep_args(const std::vector<std::string>& flags);

Failure sweep_usage(const std::string& what);

}  // namespace ringshard::cli

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "ringshard/report/metrics_log.hpp"

namespace ringshard::report {

enum class RunState {
    missing,   // no attempt has begun
    running,   // it updated a file in the last minute
    complete,  // it has finished
    stopped,   // early, with a good checkpoint: the next start resumes it
    failed,    // with the exit code in the batch script's record
    lost,      // no recent update, and no record of its end
};
const char* to_text(RunState state);

// The status of a run, derived from its files alone.
struct RunStatus {
    RunState state = RunState::missing;
    std::optional<int64_t> exit_code{};  // of the last job, if a batch script recorded it
    std::optional<int64_t> step{};
    std::optional<int64_t> num_steps{};
    std::optional<double> loss{};
    std::optional<double> tokens_per_second{};
    std::optional<double> seconds_left{};
};
RunStatus read_run_status(const std::filesystem::path& run);
// As above, with metrics that are already in memory; they may be empty.
RunStatus read_run_status(const std::filesystem::path& run, const MetricsLog& log);

// The best logged value of a metric, with its step.
struct BestValue {
    double value;
    int64_t step;
};
std::optional<BestValue> best_value(const std::filesystem::path& run, const std::string& metric,
                                    bool greater_is_better);

}  // namespace ringshard::report

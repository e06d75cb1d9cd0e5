#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "ringshard/report/metrics_log.hpp"

namespace ringshard::report {

enum class RunState {
    missing,   // nothing has begun
    running,   // it gave a sign of life in the last minute
    complete,  // it came to its end
    stopped,   // early, with a good checkpoint: it goes on when it is started again
    failed,    // with the exit code that the batch script saw
    lost,      // no sign of life, and nothing that says why
};
const char* to_text(RunState state);

// How a run stands, from its own files alone.
struct RunStatus {
    RunState state = RunState::missing;
    std::optional<int64_t> exit_code{};  // of the last job, where a batch script recorded it
    std::optional<int64_t> step{};
    std::optional<int64_t> num_steps{};
    std::optional<double> loss{};
    std::optional<double> tokens_per_second{};
    std::optional<double> seconds_left{};
};
RunStatus read_run_status(const std::filesystem::path& run);
// The same where its lines of metrics have been read; there may be none.
RunStatus read_run_status(const std::filesystem::path& run, const MetricsLog& log);

// The best value that a run has logged of a metric, and at which step.
struct BestValue {
    double value;
    int64_t step;
};
std::optional<BestValue> best_value(const std::filesystem::path& run, const std::string& metric,
                                    bool greater_is_better);

}  // namespace ringshard::report

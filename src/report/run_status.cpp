#include "ringshard/report/run_status.hpp"

#include <chrono>

#include "ringshard/base/files.hpp"
#include "ringshard/report/metrics_log.hpp"

namespace ringshard::report {

namespace fs = std::filesystem;

namespace {

// slurm/sweep.sh touches RUN/alive every ten seconds (attempt-<n>/alive is another file); a run
// started by hand logs steps.
bool is_alive(const fs::path& run) {
    constexpr auto long_ago = std::chrono::seconds(60);
    const auto now = fs::file_time_type::clock::now();
    for (const char* sign : {"alive", "metrics.jsonl"}) {
        std::error_code error;
        const auto at = fs::last_write_time(run / sign, error);
        if (!error && now - at < long_ago) return true;
    }
    return false;
}

bool has_traces(const fs::path& run) {
    std::error_code ignored;
    for (const fs::path& entry : folder_entries(run, ignored)) {
        const std::string name = entry.filename();
        if (name.starts_with("attempt-") || name == "alive") return true;
    }
    return false;
}

std::optional<int64_t> number_in_file(const fs::path& file) {
    const auto content = read_file(file);
    return content ? read_whole_number(trim(*content)) : std::nullopt;
}

std::optional<int64_t> planned_steps(const fs::path& run) {
    const auto content = read_file(run / "run.json");
    if (!content) return std::nullopt;
    const auto record = text::read_json(*content);
    const text::Value* steps = record ? record.value().find("num_steps") : nullptr;
    const int64_t* number = steps == nullptr ? nullptr : steps->integer();
    return number == nullptr ? std::nullopt : std::optional(*number);
}

// Reads the status from the metrics; returns true if the last line is the end of the run.
bool read_progress(const MetricsLog& log, RunStatus& status) {
    if (log.steps.empty()) return false;
    double seconds_per_step = 0;
    for (const auto& [step, line] : log.steps) {
        if (const auto loss = MetricsLog::number(line, "loss")) {
            status.loss = loss;
            status.tokens_per_second = MetricsLog::number(line, "tokens_per_second");
            seconds_per_step = MetricsLog::number(line, "step_time_s").value_or(0);
        }
        status.step = step;
    }
    if (status.num_steps)
        status.seconds_left =
            static_cast<double>(std::max<int64_t>(0, *status.num_steps - *status.step)) *
            seconds_per_step;
    return MetricsLog::number(log.steps.rbegin()->second, "train_runtime").has_value();
}

RunState state_of(const fs::path& run, const RunStatus& status, bool has_end) {
    constexpr int64_t stopped_early = number(ExitCode::stopped_early);
    if (has_end) return RunState::complete;
    if (status.exit_code)
        return *status.exit_code == stopped_early ? RunState::stopped : RunState::failed;
    if (is_alive(run)) return RunState::running;
    return has_traces(run) ? RunState::lost : RunState::missing;
}

}  // namespace

const char* to_text(RunState state) {
    switch (state) {
        case RunState::missing: return "missing";
        case RunState::running: return "running";
        case RunState::complete: return "complete";
        case RunState::stopped: return "stopped";
        case RunState::failed: return "failed";
        case RunState::lost: return "lost";
    }
    return "";
}

RunStatus read_run_status(const fs::path& run) {
    std::vector<std::string> ignored;
    auto log = read_metrics_log(run, ignored);
    return read_run_status(run, log ? std::move(log).value() : MetricsLog());
}

RunStatus read_run_status(const fs::path& run, const MetricsLog& log) {
    RunStatus status;
    status.exit_code = number_in_file(run / "exit-code");
    status.num_steps = planned_steps(run);
    const bool has_end = read_progress(log, status);
    status.state = state_of(run, status, has_end);
    return status;
}

std::optional<BestValue> best_value(const fs::path& run, const std::string& metric,
                                    bool greater_is_better) {
    std::vector<std::string> ignored;
    const auto log = read_metrics_log(run, ignored);
    std::optional<BestValue> best;
    if (!log) return best;
    for (const auto& [step, line] : log.value().steps) {
        const auto found = MetricsLog::number(line, metric);
        if (!found) continue;
        const bool is_better =
            !best || (greater_is_better ? *found > best->value : *found < best->value);
        if (is_better) best = {*found, step};
    }
    return best;
}

}  // namespace ringshard::report

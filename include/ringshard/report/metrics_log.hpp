#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::report {

// The content of metrics.jsonl: all logged values, by step. Excludes lines that a later attempt has
// replaced.
struct MetricsLog {
    std::string name;
    std::map<int64_t, text::Value> steps;  // objects

    // Returns a number if it is present and finite.
    static std::optional<double> number(const text::Value& step, std::string_view key);

    // Returns the keys of the losses of evaluations: eval_loss, or eval_NAME_loss of each named
    // set.
    std::vector<std::string> evaluation_losses() const;
};

// Reads the log in the folder of a run, or a metrics.jsonl. Names unreadable lines in `warnings`.
Expected<MetricsLog> read_metrics_log(const std::filesystem::path& run,
                                      std::vector<std::string>& warnings);

// Reads several logs; extends equal names by their paths.
Expected<std::vector<MetricsLog>> read_metrics_logs(const std::vector<std::filesystem::path>& runs,
                                                    std::vector<std::string>& warnings);

}  // namespace ringshard::report

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::report {

// The content of metrics.jsonl: by step, everything that was logged. Lines that a later attempt did
// not build on are left out.
struct MetricsLog {
    std::string name;
    std::map<int64_t, text::Value> steps;  // objects

    // A number that is there and finite.
    static std::optional<double> number(const text::Value& step, std::string_view key);
};

// `run` is the folder of a run, or a metrics.jsonl. Lines that cannot be read are named in
// `warnings`.
Expected<MetricsLog> read_metrics_log(const std::filesystem::path& run,
                                      std::vector<std::string>& warnings);

// Runs of one name are told apart by their paths.
Expected<std::vector<MetricsLog>> read_metrics_logs(const std::vector<std::filesystem::path>& runs,
                                                    std::vector<std::string>& warnings);

}  // namespace ringshard::report

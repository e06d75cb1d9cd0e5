#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/config/evaluation_settings.hpp"

namespace ringshard::config {

struct StepRange {
    int64_t first;
    int64_t last;
};

// Steps whose documents are logged.
enum class DocumentLogging { off, spikes, all };

struct LoggingSettings {
    Interval logging_strategy = Interval::steps;
    double logging_steps = 10;  // below 1: a fraction of all steps
    bool logging_first_step = false;
    std::vector<std::string> report_to;
    std::string logging_dir;              // of TensorBoard's files; empty: output_dir/tensorboard
    std::string project = "huggingface";  // of the trackers
    bool disable_tqdm = false;
    std::string profile_steps;  // "10-12"
    DocumentLogging document_log = DocumentLogging::off;
    std::string on_log;  // commands; empty: none
    std::string on_save;
    std::string on_evaluate;
    std::string on_end;
    double hook_timeout_s = 60;

    // Returns nothing if the setting is empty. Requires validated settings.
    std::optional<StepRange> steps_to_profile() const;
    bool reports_to(std::string_view tracker) const {
        return std::ranges::any_of(report_to, [tracker](const std::string& place) {
            return place == tracker || place == "all";
        });
    }
};

}  // namespace ringshard::config

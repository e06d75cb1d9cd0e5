#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/config/evaluation_settings.hpp"

namespace ringshard::config {

struct StepRange {
    int64_t first;
    int64_t last;
};

struct LoggingSettings {
    Interval logging_strategy = Interval::steps;
    double logging_steps = 10;  // below 1: a fraction of all steps
    bool logging_first_step = false;
    std::vector<std::string> report_to;
    bool disable_tqdm = false;
    std::string profile_steps;  // "10-12"

    // Returns nothing if the setting is empty. Requires validated settings.
    std::optional<StepRange> steps_to_profile() const;
    bool reports_to_tensorboard() const {
        return std::ranges::any_of(report_to, [](const std::string& place) {
            return place == "tensorboard" || place == "all";
        });
    }
};

}  // namespace ringshard::config

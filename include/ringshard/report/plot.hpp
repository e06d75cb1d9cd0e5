#pragma once

#include <string>
#include <vector>

#include "ringshard/report/metrics_log.hpp"

namespace ringshard::report {

enum class LossScale { linear, logarithmic };

// Curves of loss, learning rate, speed and memory over steps, all runs in one picture: an SVG that
// needs nothing beside it and is readable on a light and on a dark page.
std::string draw_svg(const std::vector<MetricsLog>& runs, LossScale scale);

// All that was logged, one line per step: a column for every key, and before them the run if there
// are several.
std::string to_csv(const std::vector<MetricsLog>& runs);

}  // namespace ringshard::report

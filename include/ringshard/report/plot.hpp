#pragma once

#include <string>
#include <vector>

#include "ringshard/report/metrics_log.hpp"

namespace ringshard::report {

enum class LossScale { linear, logarithmic };

// Runs: loss, learning rate, speed and memory over steps. Plans: speed, time, utilisation, rows and
// memory over ranks.
enum class Subject { runs, plans };

// Draws the curves of all runs or plans in one picture: an SVG without external resources, readable
// on a light and on a dark page.
std::string draw_svg(const std::vector<MetricsLog>& runs, LossScale scale,
                     Subject subject = Subject::runs);

// Formats all logged values, one line per step: a column for every key, after a column for the run
// if there are several.
std::string to_csv(const std::vector<MetricsLog>& runs);

// Formats {"runs": [{"name": ..., "steps": [{...}, ...]}, ...]}, an object per step.
std::string to_json(const std::vector<MetricsLog>& runs);

}  // namespace ringshard::report

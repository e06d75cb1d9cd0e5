#pragma once

#include <string>
#include <vector>

#include "ringshard/report/metrics_log.hpp"

namespace ringshard::report {

enum class LossScale { linear, logarithmic };

// Of runs: loss, learning rate, speed and memory over steps. Of plans: speed, time, utilisation,
// rows and memory over ranks.
enum class Subject { runs, plans };

// Curves of all runs, or plans, in one picture: an SVG that needs nothing beside it and is readable
// on a light and on a dark page.
std::string draw_svg(const std::vector<MetricsLog>& runs, LossScale scale,
                     Subject subject = Subject::runs);

// All that was logged, one line per step: a column for every key, and before them the run if there
// are several.
std::string to_csv(const std::vector<MetricsLog>& runs);

// The same as {"runs": [{"name": ..., "steps": [{...}, ...]}, ...]}, an object for every step.
std::string to_json(const std::vector<MetricsLog>& runs);

}  // namespace ringshard::report

#pragma once

#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// The fields of a line as those of a JSON object, without its braces; NaN and infinity become null.
std::string fields_of(const MetricsLine& line);
// A text as JSON.
std::string json_text(const std::string& text);

}  // namespace ringshard::train

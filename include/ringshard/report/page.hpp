#pragma once

#include <string>
#include <vector>

#include "ringshard/report/plot.hpp"
#include "ringshard/report/run_story.hpp"

namespace ringshard::report {

// Draws a page for the browser about one run, or about several side by side: HTML without external
// resources, for light and dark screens of any width. It is also valid XML.
std::string draw_page(const std::vector<RunStory>& runs, LossScale scale);

}  // namespace ringshard::report

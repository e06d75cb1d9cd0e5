#pragma once

#include <string>
#include <vector>

#include "ringshard/report/plot.hpp"
#include "ringshard/report/run_story.hpp"

namespace ringshard::report {

// A page for the browser about one run, or about several beside each other: HTML that needs no
// network and nothing beside it, for light and dark screens of any width. It is XML too.
std::string draw_page(const std::vector<RunStory>& runs, LossScale scale);

}  // namespace ringshard::report

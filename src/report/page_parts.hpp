#pragma once

#include <string>
#include <vector>

#include "page_figure.hpp"
#include "ringshard/report/page.hpp"

// The parts of the page, in the order in which it shows them.
namespace ringshard::report {

// The status of runs: tiles for one run, a row of a table each for several.
std::string state_mark(const RunStatus& status);
std::string summary_tiles(const RunStory& run);
std::string comparison_table(Stories runs);

// Curves over steps, of all runs in one picture.
std::string curves(Stories runs, LossScale scale);
// Where the time of a step and the memory of a rank go.
std::string times(Stories runs);
std::string memory(Stories runs);

// Which rank holds which place of the mesh.
std::string layout(const RunRecord& record);

// The texts that evaluations generated: of the newest one, and folded of those before it.
std::string samples(const RunStory& run);
std::string checkpoints(const RunStory& run);
std::string events(const RunStory& run);
std::string settings(const RunRecord& record);
std::string differing_settings(Stories runs);

// Returns the values of a key, from all lines that have it.
std::vector<double> values_of(const MetricsLog& metrics, std::string_view key);
std::optional<double> last_of(const MetricsLog& metrics, std::string_view key);
double median_of(std::vector<double> values);  // of one at least

}  // namespace ringshard::report

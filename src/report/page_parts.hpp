#pragma once

#include <string>
#include <vector>

#include "page_figure.hpp"
#include "ringshard/report/page.hpp"

// The sections of the page, in display order.
namespace ringshard::report {

// The status of runs: tiles for one run, a table with a row per run for several.
std::string state_mark(const RunStatus& status);
std::string summary_tiles(const RunStory& run);
std::string comparison_table(Stories runs);

// Curves over steps, all runs in one chart.
std::string curves(Stories runs, LossScale scale);
// Breakdown of step time, and of a rank's memory.
std::string times(Stories runs);
std::string memory(Stories runs);

// The position of each rank in the mesh.
std::string layout(const RunRecord& record);

// Texts that evaluations generated: the newest ones, and collapsed the earlier ones.
std::string samples(const RunStory& run);
std::string checkpoints(const RunStory& run);
std::string events(const RunStory& run);
// The documents of spikes.
std::string documents(const RunStory& run);
std::string settings(const RunRecord& record);
std::string differing_settings(Stories runs);

// Returns the values of a key from all lines that have it.
std::vector<double> values_of(const MetricsLog& metrics, std::string_view key);
std::optional<double> last_of(const MetricsLog& metrics, std::string_view key);
double median_of(std::vector<double> values);  // of at least one value

}  // namespace ringshard::report

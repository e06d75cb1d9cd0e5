#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chart.hpp"
#include "ringshard/report/run_story.hpp"

// Charts of the page.
namespace ringshard::report {

using Stories = std::span<const RunStory>;

// A metric with its chart settings.
struct Panel {
    std::string title;
    std::string key;
    Counting counting = Counting::plain;
    bool begins_at_0 = true;
};

Axis steps_of_runs(Stories runs);

// Groups of neighbouring steps, if there are more than a picture can show: their means, lowest and
// highest values. For a short series, its own points.
struct Neighbours {
    Series means, low, high;
};
Neighbours neighbours_of(const Series& series);
bool is_long(const Series& series);

// Draws a line per run; for a long run the means, with an area from lowest to highest.
Chart chart_of_runs(Stories runs, const Panel& panel);

// Stacked areas, one per part; parts share the same steps.
struct Part {
    std::string name;
    Series series;
    size_t color;
};
Chart stacked(const Panel& panel, const std::vector<Part>& parts);

// Returns a legend of samples from line_sample() or area_sample(), with names.
std::string legend(const std::vector<std::pair<std::string, std::string>>& samples);
std::string legend(const std::vector<Part>& parts);

// Returns a chart with markup below it.
std::string figure(const Chart& chart, const Axis& steps, const std::string& caption = {});
// Arranges figures and tables in as many columns as the window fits.
std::string in_columns(const std::string& markup);

}  // namespace ringshard::report

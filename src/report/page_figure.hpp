#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chart.hpp"
#include "ringshard/report/run_story.hpp"

// Charts on the page.
namespace ringshard::report {

using Stories = std::span<const RunStory>;

// A value that lines of metrics carry.
struct Panel {
    std::string title;
    std::string key;
    Counting counting = Counting::plain;
    bool begins_at_0 = true;
};

Axis steps_of_runs(Stories runs);

// Of more steps than a picture has room for, neighbours are taken together: their means, and from
// the lowest to the highest. Of fewer they are the steps themselves.
struct Neighbours {
    Series means, low, high;
};
Neighbours neighbours_of(const Series& series);
bool is_long(const Series& series);

// A line for each run; of a long one that of means, and an area around it.
Chart chart_of_runs(Stories runs, const Panel& panel);

// Areas above each other, one per part; parts have a name and the same steps.
struct Part {
    std::string name;
    Series series;
    size_t color;
};
Chart stacked(const Panel& panel, const std::vector<Part>& parts);

// Samples of colours, made by line_sample() and area_sample(), each with a name.
std::string legend(const std::vector<std::pair<std::string, std::string>>& samples);
std::string legend(const std::vector<Part>& parts);

// A chart, and markup under it.
std::string figure(const Chart& chart, const Axis& steps, const std::string& caption = {});
// Figures and tables beside each other, as many as the window has room for.
std::string in_columns(const std::string& markup);

}  // namespace ringshard::report

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axis.hpp"
#include "ringshard/report/metrics_log.hpp"
#include "ringshard/report/plot.hpp"

// A chart of values over steps.
namespace ringshard::report {

struct Point {
    double step;
    std::optional<double> value;  // nothing: a gap in the line
};
using Series = std::vector<Point>;

// Returns the points of a key. Skips steps logged without the key (evaluations); values that are
// not finite become gaps.
Series series_of(const MetricsLog& run, std::string_view key);

struct Line {
    Series points;
    size_t color;        // index of a run's colour
    std::string name{};  // for tooltips
};

// The area between two lines with the same steps.
struct Band {
    Series low, high;
    size_t color;
    enum class Look { faint, full } look = Look::faint;
    std::string name{};
};

// A labelled step, such as the start of an attempt.
struct Mark {
    double step;
    std::string word;
};

struct Chart {
    std::string key;  // of the metric, for readers of the file
    std::string title;
    Counting counting = Counting::plain;
    bool begins_at_0 = false;
    LossScale scale = LossScale::linear;
    std::vector<Band> bands{};
    std::vector<Line> lines{};
    std::vector<Line> dots{};  // single measurements
    std::vector<Mark> marks{};

    bool is_empty() const;  // no values at all
};

struct Box {
    double left, top, right, bottom;
};

// Returns the axis from the first step of all these runs to the last.
Axis steps_of(const std::vector<MetricsLog>& runs);

std::string draw_chart(const Chart& chart, const Box& box, const Axis& steps);

}  // namespace ringshard::report

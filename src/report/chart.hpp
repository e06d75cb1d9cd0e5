#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axis.hpp"
#include "ringshard/report/metrics_log.hpp"
#include "ringshard/report/plot.hpp"

// One picture of values over steps.
namespace ringshard::report {

struct Point {
    double step;
    std::optional<double> value;  // none: a gap in the line
};
using Series = std::vector<Point>;

// Steps that were logged without the key (evaluations) say nothing of it; those where it is no
// finite number are gaps.
Series series_of(const MetricsLog& run, std::string_view key);

struct Line {
    Series points;
    size_t color;        // as of runs
    std::string name{};  // for who asks what it is
};

// The area between two lines that have the same steps.
struct Band {
    Series low, high;
    size_t color;
    enum class Look { faint, full } look = Look::faint;
    std::string name{};
};

// A step at which something happened, with a word for it.
struct Mark {
    double step;
    std::string word;
};

struct Chart {
    std::string key;  // what it shows, for readers of the file
    std::string title;
    Counting counting = Counting::plain;
    bool begins_at_0 = false;
    LossScale scale = LossScale::linear;
    std::vector<Band> bands{};
    std::vector<Line> lines{};
    std::vector<Line> dots{};  // single measurements
    std::vector<Mark> marks{};

    bool is_empty() const;  // not one value
};

struct Box {
    double left, top, right, bottom;
};

// From the first step of all these runs to the last.
Axis steps_of(const std::vector<MetricsLog>& runs);

std::string draw_chart(const Chart& chart, const Box& box, const Axis& steps);

}  // namespace ringshard::report

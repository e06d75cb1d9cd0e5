#include "chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ringshard/base/text.hpp"
#include "svg.hpp"

namespace ringshard::report {

namespace {

constexpr double room_left = 58;   // for labels of values
constexpr double room_above = 30;  // for the title
constexpr double room_below = 34;  // for labels of steps
constexpr double room_right = 14;

struct Bounds {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
    bool is_empty() const { return low > high; }
    void add(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
    void add(const Series& series, bool only_above_0) {
        for (const Point& point : series)
            if (point.value && (*point.value > 0 || !only_above_0)) add(*point.value);
    }
};

Bounds bounds_of(const Chart& chart) {
    const bool only_above_0 = chart.scale == LossScale::logarithmic;
    Bounds bounds;
    for (const Band& band : chart.bands)
        for (const Series* edge : {&band.low, &band.high}) bounds.add(*edge, only_above_0);
    for (const auto* lines : {&chart.lines, &chart.dots})
        for (const Line& line : *lines) bounds.add(line.points, only_above_0);
    return bounds;
}

Axis values_of(const Chart& chart) {
    const Bounds bounds = bounds_of(chart);
    if (chart.scale == LossScale::logarithmic) return logarithmic_axis(bounds.low, bounds.high);
    return linear_axis(chart.begins_at_0 ? std::min(0.0, bounds.low) : bounds.low, bounds.high,
                       chart.counting);
}

// Maps steps and values to the page.
struct Frame {
    double left, top, right, bottom;
    Axis steps, values;

    double x(double step) const { return left + steps.share_of(step) * (right - left); }
    double y(double value) const { return bottom - values.share_of(value) * (bottom - top); }
    double column(double step) const { return std::floor(x(step)); }
    bool has_room_for(size_t points) const {
        return static_cast<double>(points) <= 2 * (right - left);
    }
};

// Reduces the points of each pixel column to the first, lowest, highest and last, the only visible
// ones.
Series thinned(const Series& series, const Frame& frame) {
    if (frame.has_room_for(series.size())) return series;
    Series kept;
    for (auto begin = series.begin(); begin != series.end();) {
        const auto end = std::find_if(begin, series.end(), [&](const Point& point) {
            return frame.column(point.step) != frame.column(begin->step) ||
                   point.value.has_value() != begin->value.has_value();
        });
        const auto less = [](const Point& a, const Point& b) { return a.value < b.value; };
        const auto [lowest, highest] = std::minmax_element(begin, end, less);
        std::array<decltype(begin), 4> chosen{begin, lowest, highest, std::prev(end)};
        std::ranges::sort(chosen);
        for (size_t i = 0; i < chosen.size(); ++i)
            if (i == 0 || chosen[i] != chosen[i - 1]) kept.push_back(*chosen[i]);
        begin = end;
    }
    return kept;
}

bool can_be_drawn(const Point& point, const Axis& values) {
    return point.value && (*point.value > 0 || !values.is_logarithmic);
}

// Draws a path with one section per range without gaps; a single point becomes a dot.
std::string draw_line(const Line& line, const Frame& frame) {
    const Series points = thinned(line.points, frame);
    std::string path;
    std::string dots;
    for (size_t i = 0; i < points.size(); ++i) {
        if (!can_be_drawn(points[i], frame.values)) continue;
        const bool goes_on = i > 0 && can_be_drawn(points[i - 1], frame.values);
        const bool has_next = i + 1 < points.size() && can_be_drawn(points[i + 1], frame.values);
        const double x = frame.x(points[i].step);
        const double y = frame.y(*points[i].value);
        if (goes_on || has_next)
            path += format_text("{}{} {}", goes_on ? "L" : "M", place(x), place(y));
        else
            dots += dot_at(x, y, 2.5, "dot", line.color);
    }
    if (!path.empty())
        path = format_text("<path class=\"line {}\"{} data-name=\"{}\" d=\"{}\"/>\n",
                           color_of(line.color), dashes_of(line.color), escaped(line.name), path);
    return path + dots;
}

// Returns attributes with which the script converts a position in the picture to a step and a
// value.
std::string described(const Frame& frame) {
    const auto& [left, top, right, bottom, steps, values] = frame;
    return format_text(
        " data-box=\"{} {} {} {}\" data-steps=\"{} {}\" data-values=\"{} {}\" data-scale=\"{}\" "
        "data-size=\"{}\" data-unit=\"{}\"",
        place(left), place(top), place(right), place(bottom), shortest(steps.low),
        shortest(steps.high), shortest(values.low), shortest(values.high),
        values.is_logarithmic ? "log" : "linear", shortest(values.unit_size), escaped(values.unit));
}

// Draws an outline there and back for each range in which both edges have values. Of several points
// in one column it takes the outermost, for stacked bands the first.
std::string draw_band(const Band& band, const Frame& frame) {
    const size_t size = std::min(band.low.size(), band.high.size());
    const bool thins = !frame.has_room_for(size);
    std::string path;
    std::vector<std::string> there, back;
    const auto close = [&] {
        std::ranges::reverse(back);
        if (!there.empty()) path += format_text("M{}L{}Z", join(there, "L"), join(back, "L"));
        there.clear();
        back.clear();
    };
    for (size_t i = 0; i < size; ++i) {
        if (!can_be_drawn(band.low[i], frame.values) || !can_be_drawn(band.high[i], frame.values)) {
            close();
            continue;
        }
        double low = *band.low[i].value;
        double high = *band.high[i].value;
        const double step = band.low[i].step;
        for (; thins && i + 1 < size && band.low[i + 1].value && band.high[i + 1].value &&
               frame.column(band.low[i + 1].step) == frame.column(step);
             ++i) {
            if (band.look == Band::Look::full) continue;
            low = std::min(low, *band.low[i + 1].value);
            high = std::max(high, *band.high[i + 1].value);
        }
        there.push_back(format_text("{} {}", place(frame.x(step)), place(frame.y(high))));
        back.push_back(format_text("{} {}", place(frame.x(step)), place(frame.y(low))));
    }
    close();
    if (path.empty()) return path;
    return format_text("<path class=\"{}{}\" data-name=\"{}\" d=\"{}\"/>\n",
                       band.look == Band::Look::full ? "stack " : "band ", color_of(band.color),
                       escaped(band.name), path);
}

std::string draw_axes(const Frame& frame, const Chart& chart) {
    const auto& [left, top, right, bottom, steps, values] = frame;
    const std::string unit = values.unit.empty() ? "" : format_text(" ({})", values.unit);
    const char* const scale = values.is_logarithmic ? ", logarithmic" : "";
    std::string out = text_at(left, top - 11, "class=\"title\"", concat(chart.title, unit, scale));
    for (const Axis::Tick& tick : values.ticks) {
        const double y = frame.y(tick.value);
        out += line_at(left, y, right, y, "grid");
        out += text_at(left - 7, y + 4, "class=\"label\" text-anchor=\"end\"", tick.label);
    }
    for (const Axis::Tick& tick : steps.ticks) {
        const double x = frame.x(tick.value);
        out += line_at(x, top, x, bottom, "grid");
        out += text_at(x, bottom + 17, "class=\"label\" text-anchor=\"middle\"", tick.label);
    }
    return out + line_at(left, bottom, right, bottom, "frame") +
           line_at(left, top, left, bottom, "frame");
}

// Draws the line alone if the word would overlap the one before.
std::string draw_marks(const Chart& chart, const Frame& frame) {
    constexpr double letter = 6.5;
    std::string out;
    double free_from = frame.left;
    for (const Mark& mark : chart.marks) {
        if (mark.step < frame.steps.low || mark.step > frame.steps.high) continue;
        const double x = frame.x(mark.step);
        const double width = letter * static_cast<double>(mark.word.size());
        out += format_text("<g><title>{}</title>{}</g>\n", escaped(mark.word),
                           line_at(x, frame.top, x, frame.bottom, "mark"));
        if (x < free_from || x + 4 + width > frame.right) continue;
        out += text_at(x + 4, frame.top + 11, "class=\"label\"", mark.word);
        free_from = x + 8 + width;
    }
    return out;
}

}  // namespace

Series series_of(const MetricsLog& run, std::string_view key) {
    Series series;
    for (const auto& [number, step] : run.steps)
        if (step.find(key) != nullptr)
            series.push_back({static_cast<double>(number), MetricsLog::number(step, key)});
    return series;
}

bool Chart::is_empty() const { return bounds_of(*this).is_empty(); }

Axis steps_of(const std::vector<MetricsLog>& runs) {
    Bounds steps;
    for (const MetricsLog& run : runs) {
        if (run.steps.empty()) continue;
        steps.add(static_cast<double>(run.steps.begin()->first));
        steps.add(static_cast<double>(run.steps.rbegin()->first));
    }
    return steps.is_empty() ? step_axis(0, 1) : step_axis(steps.low, steps.high);
}

std::string draw_chart(const Chart& chart, const Box& box, const Axis& steps) {
    const Frame frame{box.left + room_left,
                      box.top + room_above,
                      box.right - room_right,
                      box.bottom - room_below,
                      steps,
                      values_of(chart)};
    std::string out = format_text("<g data-key=\"{}\"{}>\n{}", escaped(chart.key), described(frame),
                                  draw_axes(frame, chart));
    for (const Band& band : chart.bands) out += draw_band(band, frame);
    out += draw_marks(chart, frame);
    for (const Line& line : chart.lines) out += draw_line(line, frame);
    for (const Line& dots : chart.dots)
        for (const Point& point : dots.points)
            if (can_be_drawn(point, frame.values))
                out += dot_at(frame.x(point.step), frame.y(*point.value), 4, "eval", dots.color);
    return out + "</g>\n";
}

}  // namespace ringshard::report

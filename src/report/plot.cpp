#include "ringshard/report/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "axis.hpp"
#include "ringshard/base/text.hpp"
#include "svg.hpp"

namespace ringshard::report {

namespace {

// --- what is drawn

struct Point {
    double step;
    std::optional<double> value;  // none: a gap in the line
};
using Series = std::vector<Point>;

struct Panel {
    const char* title;
    const char* key;
    const char* dots_key;  // of single measurements beside the line; may be null
    Counting counting;
    bool begins_at_0;
};

constexpr std::array panels_of_runs{
    Panel{"Loss", "loss", "eval_loss", Counting::plain, false},
    Panel{"Learning rate", "learning_rate", nullptr, Counting::plain, true},
    Panel{"Tokens per second", "tokens_per_second", nullptr, Counting::plain, true},
    Panel{"Peak memory of a rank", "peak_memory_bytes", nullptr, Counting::bytes, true}};
constexpr std::array panels_of_plans{
    Panel{"Tokens per second", "tokens_per_second", nullptr, Counting::plain, true},
    Panel{"Seconds of a step", "step_seconds", nullptr, Counting::plain, true},
    Panel{"Share of the peak", "utilisation", nullptr, Counting::plain, true},
    Panel{"Tokens of a row", "row_length", nullptr, Counting::plain, true},
    Panel{"Memory of a rank", "peak_bytes", nullptr, Counting::bytes, true}};

std::span<const Panel> panels_of(Subject subject) {
    if (subject == Subject::plans) return panels_of_plans;
    return panels_of_runs;
}

// Steps that were logged without the key (evaluations) say nothing of it; those where it is no
// finite number are gaps.
Series series_of(const MetricsLog& run, const char* key) {
    Series series;
    if (key == nullptr) return series;
    for (const auto& [number, step] : run.steps)
        if (step.find(key) != nullptr)
            series.push_back({static_cast<double>(number), MetricsLog::number(step, key)});
    return series;
}

struct Bounds {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
    bool is_empty() const { return low > high; }
    void add(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
};

Bounds bounds_of(const std::vector<MetricsLog>& runs, const Panel& panel, bool only_above_0) {
    Bounds bounds;
    for (const MetricsLog& run : runs)
        for (const char* key : {panel.key, panel.dots_key})
            for (const Point& point : series_of(run, key))
                if (point.value && (*point.value > 0 || !only_above_0)) bounds.add(*point.value);
    return bounds;
}

// --- how it looks

constexpr double width = 1000;
constexpr double margin = 20;
constexpr double panel_height = 270;
constexpr double room_left = 58;   // of a panel, for the labels of its values
constexpr double room_above = 30;  // for its title
constexpr double room_below = 34;  // for the labels of its steps
constexpr double letter_width = 6.8;
constexpr size_t longest_name = 60;

// The end of a long name tells runs apart better than its beginning.
std::string shortened(const std::string& name) {
    if (name.size() <= longest_name) return name;
    size_t begin = name.size() - longest_name;
    while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xc0U) == 0x80U)
        ++begin;  // not inside a character
    return "…" + name.substr(begin);
}

// Where values of a panel lie on the page.
struct Frame {
    double left, top, right, bottom;
    Axis steps, values;

    double x(double step) const { return left + steps.share_of(step) * (right - left); }
    double y(double value) const { return bottom - values.share_of(value) * (bottom - top); }
};

// Of many points in one column of the picture the first, the lowest, the highest and the last are
// all that can be seen.
Series thinned(const Series& series, const Frame& frame) {
    if (static_cast<double>(series.size()) <= 2 * (frame.right - frame.left)) return series;
    const auto column = [&](const Point& point) { return std::floor(frame.x(point.step)); };
    Series kept;
    for (auto begin = series.begin(); begin != series.end();) {
        const auto end = std::find_if(begin, series.end(), [&](const Point& point) {
            return column(point) != column(*begin) ||
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

// A path with a piece for every stretch without gaps; a point alone becomes a dot.
std::string draw_line(const Series& series, const Frame& frame, size_t run) {
    const Series points = thinned(series, frame);
    std::string path;
    std::string dots;
    for (size_t i = 0; i < points.size(); ++i) {
        if (!can_be_drawn(points[i], frame.values)) continue;
        const bool goes_on = i > 0 && can_be_drawn(points[i - 1], frame.values);
        const bool has_next = i + 1 < points.size() && can_be_drawn(points[i + 1], frame.values);
        const double x = frame.x(points[i].step);
        const double y = frame.y(*points[i].value);
        if (goes_on || has_next)
            path += concat(goes_on ? "L" : "M", place(x), " ", place(y));
        else
            dots += dot_at(x, y, 2.5, "dot", run);
    }
    if (!path.empty())
        path = concat("<path class=\"line ", color_of(run), "\"", dashes_of(run), " d=\"", path,
                      "\"/>\n");
    return path + dots;
}

std::string draw_axes(const Frame& frame, const Panel& panel) {
    const auto& [left, top, right, bottom, steps, values] = frame;
    const std::string unit = values.unit.empty() ? "" : concat(" (", values.unit, ")");
    const char* const scale = values.is_logarithmic ? ", logarithmic" : "";
    std::string out = text_at(left, top - 11, "class=\"title\"", concat(panel.title, unit, scale));
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

std::string draw_panel(const std::vector<MetricsLog>& runs, const Panel& panel,
                       const Frame& frame) {
    std::string out = concat("<g data-key=\"", panel.key, "\">\n", draw_axes(frame, panel));
    for (size_t run = 0; run < runs.size(); ++run)
        out += draw_line(series_of(runs[run], panel.key), frame, run);
    for (size_t run = 0; run < runs.size(); ++run)
        for (const Point& point : series_of(runs[run], panel.dots_key))
            if (can_be_drawn(point, frame.values))
                out += dot_at(frame.x(point.step), frame.y(*point.value), 4, "eval", run);
    return out + "</g>\n";
}

// Names of runs in rows, and what the dots are. `y` goes on to where the rows end.
std::string draw_legend(const std::vector<MetricsLog>& runs, double& y) {
    std::string out;
    double x = margin;
    const auto make_room = [&](const std::string& text) {
        const double length = 34 + letter_width * static_cast<double>(text.size()) + 22;
        if (x > margin && x + length > width - margin) {
            x = margin;
            y += 20;
        }
        return length;
    };
    for (size_t run = 0; run < runs.size(); ++run) {
        const std::string name = shortened(runs[run].name);
        const double length = make_room(name);
        out += concat("<g><title>", escaped(runs[run].name), "</title><path class=\"line ",
                      color_of(run), "\"", dashes_of(run), " d=\"M", place(x), " ", place(y - 4),
                      "h26\"/>\n", text_at(x + 34, y, "", name), "</g>\n");
        x += length;
    }
    const bool has_dots = std::ranges::any_of(
        runs, [](const MetricsLog& run) { return !series_of(run, "eval_loss").empty(); });
    if (has_dots) {
        const std::string text = "dots: eval_loss";
        make_room(text);
        for (const double offset : {4.0, 22.0}) out += dot_at(x + offset, y - 4, 4, "eval", 7);
        out += text_at(x + 34, y, "", text);
    }
    y += 16;
    return out;
}

}  // namespace

std::string draw_svg(const std::vector<MetricsLog>& runs, LossScale scale, Subject subject) {
    const bool is_plan = subject == Subject::plans;
    Bounds steps;
    for (const MetricsLog& run : runs) {
        steps.add(static_cast<double>(run.steps.begin()->first));
        steps.add(static_cast<double>(run.steps.rbegin()->first));
    }
    double top = margin + 8;
    std::string content = draw_legend(runs, top);

    std::vector<std::pair<const Panel*, Axis>> shown;  // with the axis of its values
    for (const Panel& panel : panels_of(subject)) {
        const bool is_logarithmic =
            scale == LossScale::logarithmic && std::string_view(panel.key) == "loss";
        const Bounds bounds = bounds_of(runs, panel, is_logarithmic);
        if (bounds.is_empty()) continue;
        shown.emplace_back(
            &panel, is_logarithmic
                        ? logarithmic_axis(bounds.low, bounds.high)
                        : linear_axis(panel.begins_at_0 ? std::min(0.0, bounds.low) : bounds.low,
                                      bounds.high, panel.counting));
    }
    const size_t num_columns = shown.size() > 1 ? 2 : 1;
    const double panel_width = (width - 2 * margin) / static_cast<double>(num_columns);
    for (size_t i = 0; i < shown.size(); ++i) {
        const double left = margin + static_cast<double>(i % num_columns) * panel_width;
        const double above = top + static_cast<double>(i / num_columns) * panel_height;
        content += draw_panel(
            runs, *shown[i].first,
            {left + room_left, above + room_above, left + panel_width - 14,
             above + panel_height - room_below, step_axis(steps.low, steps.high), shown[i].second});
    }
    const double num_rows =
        std::ceil(static_cast<double>(shown.size()) / static_cast<double>(num_columns));
    const double height = top + num_rows * panel_height + margin;
    return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", place(width), " ",
                  place(height), "\" width=\"", place(width), "\" height=\"", place(height),
                  "\" role=\"img\">\n<title>", is_plan ? "Plans over ranks" : "Metrics over steps",
                  "</title>\n<style>", svg_style(),
                  "</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n", content,
                  text_at(width / 2, height - 12, "class=\"label\" text-anchor=\"middle\"",
                          is_plan ? "ranks" : "step"),
                  "</svg>\n");
}

}  // namespace ringshard::report

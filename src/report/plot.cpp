#include "ringshard/report/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>

#include "chart.hpp"
#include "ringshard/base/text.hpp"
#include "svg.hpp"

namespace ringshard::report {

namespace {

// --- content

struct PlotPanel {
    const char* title;
    const char* key;
    const char* dots_key;  // of separate measurements beside the line; may be null
    Counting counting;
    bool begins_at_0;
};

constexpr std::array panels_of_runs{
    PlotPanel{"Loss", "loss", "eval_loss", Counting::plain, false},
    PlotPanel{"Learning rate", "learning_rate", nullptr, Counting::plain, true},
    PlotPanel{"Tokens per second", "tokens_per_second", nullptr, Counting::plain, true},
    PlotPanel{"Peak memory of a rank", "peak_memory_bytes", nullptr, Counting::bytes, true}};
constexpr std::array panels_of_plans{
    PlotPanel{"Tokens per second", "tokens_per_second", nullptr, Counting::plain, true},
    PlotPanel{"Seconds of a step", "step_seconds", nullptr, Counting::plain, true},
    PlotPanel{"Share of the peak", "utilisation", nullptr, Counting::plain, true},
    PlotPanel{"Tokens of a row", "row_length", nullptr, Counting::plain, true},
    PlotPanel{"Memory of a rank", "peak_bytes", nullptr, Counting::bytes, true}};

std::span<const PlotPanel> panels_of(Subject subject) {
    if (subject == Subject::plans) return panels_of_plans;
    return panels_of_runs;
}

Chart chart_of(const std::vector<MetricsLog>& runs, const PlotPanel& panel, LossScale scale) {
    const bool is_loss = std::string_view(panel.key) == "loss";
    Chart chart{.key = panel.key,
                .title = panel.title,
                .counting = panel.counting,
                .begins_at_0 = panel.begins_at_0,
                .scale = is_loss ? scale : LossScale::linear};
    for (size_t run = 0; run < runs.size(); ++run) {
        chart.lines.push_back({series_of(runs[run], panel.key), run});
        if (panel.dots_key == nullptr) continue;
        const bool are_losses = std::string_view(panel.dots_key) == "eval_loss";
        for (const std::string& key :
             are_losses ? runs[run].evaluation_losses() : std::vector<std::string>{panel.dots_key})
            chart.dots.push_back({series_of(runs[run], key), run});
    }
    return chart;
}

// --- layout

constexpr double width = 1000;
constexpr double margin = 20;
constexpr double panel_height = 270;
constexpr double letter_width = 6.8;
constexpr size_t longest_name = 60;

// Keeps the end of a long name, which distinguishes runs better than its beginning.
std::string shortened(const std::string& name) {
    if (name.size() <= longest_name) return name;
    size_t begin = name.size() - longest_name;
    while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xc0U) == 0x80U)
        ++begin;  // skip to the next character boundary
    return "…" + name.substr(begin);
}

// Draws the names of runs in rows, and the meaning of dots. Advances `y` to the end of the rows.
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
        out += format_text(
            "<g><title>{}</title><path class=\"line {}\"{} d=\"M{} {}h26\"/>\n"
            "{}</g>\n",
            escaped(runs[run].name), color_of(run), dashes_of(run), place(x), place(y - 4),
            text_at(x + 34, y, "", name));
        x += length;
    }
    std::set<std::string> dots;
    for (const MetricsLog& run : runs)
        for (const std::string& key : run.evaluation_losses()) dots.insert(key);
    if (!dots.empty()) {
        const std::string text = format_text("dots: {}", join({dots.begin(), dots.end()}, ", "));
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
    double top = margin + 8;
    std::string content = draw_legend(runs, top);

    std::vector<Chart> charts;
    for (const PlotPanel& panel : panels_of(subject))
        charts.push_back(chart_of(runs, panel, scale));
    std::erase_if(charts, [](const Chart& chart) { return chart.is_empty(); });
    const Axis steps = steps_of(runs);
    const size_t num_columns = charts.size() > 1 ? 2 : 1;
    const double panel_width = (width - 2 * margin) / static_cast<double>(num_columns);
    for (size_t i = 0; i < charts.size(); ++i) {
        const double left = margin + static_cast<double>(i % num_columns) * panel_width;
        const double above = top + static_cast<double>(i / num_columns) * panel_height;
        content +=
            draw_chart(charts[i], {left, above, left + panel_width, above + panel_height}, steps);
    }
    const double num_rows =
        std::ceil(static_cast<double>(charts.size()) / static_cast<double>(num_columns));
    const double height = top + num_rows * panel_height + margin;
    return format_text(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" "
        "height=\"{}\" role=\"img\">\n"
        "<title>{}</title>\n"
        "<style>{}</style>\n"
        "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
        "{}{}</svg>\n",
        place(width), place(height), place(width), place(height),
        is_plan ? "Plans over ranks" : "Metrics over steps", svg_style(), content,
        text_at(width / 2, height - 12, "class=\"label\" text-anchor=\"middle\"",
                is_plan ? "ranks" : "step"));
}

}  // namespace ringshard::report

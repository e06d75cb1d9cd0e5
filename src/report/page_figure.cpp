#include "page_figure.hpp"

#include <algorithm>

#include "html.hpp"
#include "ringshard/base/text.hpp"
#include "svg.hpp"

namespace ringshard::report {

Axis steps_of_runs(Stories runs) {
    std::optional<int64_t> first, last;
    for (const RunStory& run : runs) {
        const auto& steps = run.metrics.steps;
        if (steps.empty()) continue;
        first = std::min(first.value_or(steps.begin()->first), steps.begin()->first);
        last = std::max(last.value_or(steps.rbegin()->first), steps.rbegin()->first);
    }
    return step_axis(static_cast<double>(first.value_or(0)), static_cast<double>(last.value_or(1)));
}

Chart chart_of_runs(Stories runs, const Panel& panel) {
    Chart chart{.key = panel.key,
                .title = panel.title,
                .counting = panel.counting,
                .begins_at_0 = panel.begins_at_0};
    for (size_t run = 0; run < runs.size(); ++run)
        chart.lines.push_back({series_of(runs[run].metrics, panel.key), run,
                               runs.size() > 1 ? runs[run].metrics.name : ""});
    return chart;
}

Chart stacked(const Panel& panel, const std::vector<Part>& parts) {
    Chart chart{
        .key = panel.key, .title = panel.title, .counting = panel.counting, .begins_at_0 = true};
    Series low;
    for (const Part& part : parts) {
        if (low.size() != part.series.size()) {
            low = part.series;
            for (Point& point : low) point.value = 0;
        }
        Series high = part.series;
        for (size_t i = 0; i < high.size(); ++i)
            if (high[i].value && low[i].value) *high[i].value += *low[i].value;
        chart.bands.push_back({low, high, part.color, Band::Look::full, part.name});
        low = std::move(high);
    }
    return chart;
}

std::string legend(const std::vector<std::pair<std::string, std::string>>& samples) {
    std::string items;
    for (const auto& [sample, name] : samples)
        items += element("li", "", sample + text_in("span", name));
    return element("ul", "class=\"legend\"", items) + "\n";
}

std::string legend(const std::vector<Part>& parts) {
    std::vector<std::pair<std::string, std::string>> samples;
    samples.reserve(parts.size());
    for (const Part& part : parts) samples.emplace_back(area_sample(part.color), part.name);
    return legend(samples);
}

std::string figure(const Chart& chart, const Axis& steps, const std::string& caption) {
    constexpr Box box{0, 4, 460, 252};
    return concat("<figure><svg class=\"chart\" viewBox=\"0 0 460 256\" role=\"img\">",
                  text_in("title", chart.title + " over steps"), "\n",
                  draw_chart(chart, box, steps), "</svg>",
                  caption.empty() ? "" : element("figcaption", "", caption), "</figure>\n");
}

std::string in_columns(const std::string& markup) {
    return element("div", "class=\"charts\"", "\n" + markup) + "\n";
}

}  // namespace ringshard::report

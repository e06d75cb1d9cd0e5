#include "page_figure.hpp"

#include <algorithm>
#include <numeric>

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

bool is_long(const Series& series) {
    constexpr size_t room = 500;  // points
    return series.size() > room;
}

Neighbours neighbours_of(const Series& series) {
    if (!is_long(series)) return {series, series, series};
    constexpr size_t num_groups = 190;  // one per two columns of the picture
    Neighbours out;
    for (size_t group = 0; group < num_groups; ++group) {
        const size_t begin = group * series.size() / num_groups;
        const size_t end = (group + 1) * series.size() / num_groups;
        std::vector<double> values;
        for (size_t i = begin; i < end; ++i)
            if (series[i].value) values.push_back(*series[i].value);
        const double step = series[(begin + end - 1) / 2].step;
        out.means.push_back({step, {}});
        out.low.push_back({step, {}});
        out.high.push_back({step, {}});
        if (values.empty()) continue;
        const auto [low, high] = std::ranges::minmax(values);
        out.low.back().value = low;
        out.high.back().value = high;
        out.means.back().value =
            std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    }
    return out;
}

Chart chart_of_runs(Stories runs, const Panel& panel) {
    Chart chart{.key = panel.key,
                .title = panel.title,
                .counting = panel.counting,
                .begins_at_0 = panel.begins_at_0};
    for (size_t run = 0; run < runs.size(); ++run) {
        const std::string name = runs.size() > 1 ? runs[run].metrics.name : "";
        const Series series = series_of(runs[run].metrics, panel.key);
        Neighbours neighbours = neighbours_of(series);
        if (is_long(series))
            chart.bands.push_back({std::move(neighbours.low), std::move(neighbours.high), run,
                                   Band::Look::faint, name});
        chart.lines.push_back({std::move(neighbours.means), run, name});
    }
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
    return format_text(
        "<figure><svg class=\"chart\" viewBox=\"0 0 460 256\" role=\"img\">{}\n"
        "{}</svg>{}</figure>\n",
        text_in("title", chart.title + " over steps"), draw_chart(chart, box, steps),
        caption.empty() ? "" : element("figcaption", "", caption));
}

std::string in_columns(const std::string& markup) {
    return element("div", "class=\"charts\"", "\n" + markup) + "\n";
}

}  // namespace ringshard::report

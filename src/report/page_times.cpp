#include <algorithm>
#include <array>
#include <cmath>

#include "html.hpp"
#include "numbers.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::report {

namespace {

struct TimeKind {
    const char* title;
    const char* name;  // prefix of metrics' keys, before "_s", "_median_s", "_min_s" and "_rank"
};
constexpr std::array time_kinds{TimeKind{"Computing", "compute"},
                                TimeKind{"Waiting for other ranks", "comm_wait"},
                                TimeKind{"Waiting for data", "data_wait"}};

Series series(const MetricsLog& metrics, const TimeKind& kind, const char* ending) {
    return series_of(metrics, concat(kind.name, ending));
}

// Charts the seconds of a kind on the slowest, the median and the fastest rank.
Chart spread(const MetricsLog& metrics, const TimeKind& kind, size_t color) {
    Chart chart{.key = format_text("{}_s", kind.name),
                .title = kind.title,
                .counting = Counting::seconds,
                .begins_at_0 = true};
    const Series longest = series(metrics, kind, "_s");
    const Series shortest = series(metrics, kind, "_min_s");
    if (shortest.size() == longest.size())
        chart.bands.push_back({shortest, longest, color, Band::Look::faint, "all ranks"});
    chart.lines.push_back(
        {neighbours_of(series(metrics, kind, "_median_s")).means, color, "median"});
    return chart;
}

// Returns the rank that was slowest most often, and its share of the lines: "3 (60%)".
std::string slowest_rank(const MetricsLog& metrics, const TimeKind& kind) {
    std::map<int64_t, int64_t> times;
    int64_t num_lines = 0;
    for (const double rank : values_of(metrics, format_text("{}_rank", kind.name))) {
        ++times[std::llround(rank)];
        ++num_lines;
    }
    if (times.empty()) return {};
    const auto most = std::ranges::max_element(
        times, {}, [](const auto& rank_and_times) { return rank_and_times.second; });
    return format_text("{} ({}%)", most->first, 100 * most->second / num_lines);
}

std::string table_of_ranks(const MetricsLog& metrics) {
    HtmlTable table{{"Over all lines", "Median rank", "Slowest rank", "Mostly rank"}, {}};
    for (const TimeKind& kind : time_kinds) {
        const auto medians = values_of(metrics, format_text("{}_median_s", kind.name));
        const auto longest = values_of(metrics, format_text("{}_s", kind.name));
        if (longest.empty()) continue;
        table.rows.push_back({cell(kind.title),
                              number_cell(medians.empty() ? "" : duration_text(median_of(medians))),
                              number_cell(duration_text(median_of(longest))),
                              number_cell(slowest_rank(metrics, kind))});
    }
    return table.rows.empty() ? "" : markup(table, "span2");
}

std::string times_of_one(const RunStory& run) {
    const Axis steps = steps_of_runs(Stories(&run, 1));
    std::vector<Part> parts;
    for (size_t kind = 0; kind < time_kinds.size(); ++kind)
        parts.push_back({lower_case(time_kinds[kind].title),
                         series(run.metrics, time_kinds[kind], "_median_s"), kind});
    const Chart whole = stacked({"A step, median rank", "step", Counting::seconds}, parts);
    std::string figures = whole.is_empty() ? "" : figure(whole, steps, legend(parts));
    for (size_t kind = 0; kind < time_kinds.size(); ++kind) {
        const Chart chart = spread(run.metrics, time_kinds[kind], kind);
        if (!chart.is_empty()) figures += figure(chart, steps);
    }
    if (figures.empty()) return {};
    return "<p class=\"soft\">Lines: the rank in the median; areas: from the fastest rank to the "
           "slowest. The table: medians over all lines, and which rank was the slowest most "
           "often.</p>\n" +
           in_columns(figures + table_of_ranks(run.metrics));
}

std::string times_of_several(Stories runs) {
    const Axis steps = steps_of_runs(runs);
    std::string figures;
    for (const TimeKind& kind : time_kinds) {
        const Chart chart =
            chart_of_runs(runs, {format_text("{}, slowest rank", kind.title),
                                 format_text("{}_s", kind.name), Counting::seconds});
        if (!chart.is_empty()) figures += figure(chart, steps);
    }
    return figures.empty() ? "" : in_columns(figures);
}

}  // namespace

std::string times(Stories runs) {
    return runs.size() == 1 ? times_of_one(runs.front()) : times_of_several(runs);
}

}  // namespace ringshard::report

#include <algorithm>
#include <set>

#include "html.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::report {

namespace {

// Returns marks at the starts of attempts, for the chart of one run.
std::vector<Mark> marks_of_attempts(const std::vector<Event>& events) {
    std::vector<Mark> marks;
    std::optional<int64_t> attempt;
    for (const Event& event : events) {
        const bool begins = attempt && event.attempt != *attempt && event.step;
        if (begins)
            marks.push_back(
                {static_cast<double>(*event.step), format_text("attempt {}", event.attempt)});
        attempt = event.attempt;
    }
    return marks;
}

Chart loss_chart(Stories runs, LossScale scale) {
    Chart chart = chart_of_runs(runs, {"Loss", "loss", Counting::plain, false});
    chart.scale = scale;
    for (size_t run = 0; run < runs.size(); ++run)
        for (const std::string& key : runs[run].metrics.evaluation_losses())
            chart.dots.push_back({series_of(runs[run].metrics, key), run});
    if (runs.size() == 1) chart.marks = marks_of_attempts(runs.front().events);
    return chart;
}

// Returns "Dots: eval_loss.", or nothing without evaluations.
std::string legend_of_dots(Stories runs) {
    std::set<std::string> keys;
    for (const RunStory& run : runs)
        for (const std::string& key : run.metrics.evaluation_losses()) keys.insert(key);
    if (keys.empty()) return {};
    return format_text("Dots: {}.", join({keys.begin(), keys.end()}, ", "));
}

bool has_long(Stories runs) {
    return std::ranges::any_of(
        runs, [](const RunStory& run) { return is_long(series_of(run.metrics, "loss")); });
}

std::string legend_of_runs(Stories runs) {
    std::vector<std::pair<std::string, std::string>> samples;
    for (size_t run = 0; run < runs.size(); ++run)
        samples.emplace_back(line_sample(run), runs[run].metrics.name);
    return legend(samples);
}

}  // namespace

std::string curves(Stories runs, LossScale scale) {
    std::vector<Chart> charts{loss_chart(runs, scale)};
    for (const Panel& panel :
         {Panel{"Learning rate", "learning_rate"}, Panel{"Gradient norm", "grad_norm"},
          Panel{"Tokens per second", "tokens_per_second"},
          Panel{"Share of target tokens that are right", "mean_token_accuracy"},
          Panel{"Share of the devices' peak (mfu)", "mfu"},
          Panel{"Loss that balances experts", "aux_loss"},
          Panel{"Tokens of the busiest expert over the mean of its block",
                "expert_load_max_to_mean"},
          Panel{"Tokens of the least busy expert over the mean", "expert_load_min_to_mean"}})
        charts.push_back(chart_of_runs(runs, panel));
    std::erase_if(charts, [](const Chart& chart) { return chart.is_empty(); });
    if (charts.empty()) return "<p>No step has been logged.</p>\n";
    const Axis steps = steps_of_runs(runs);
    std::string words = legend_of_dots(runs);
    if (has_long(runs))
        words += format_text(
            "{}Lines of long runs: means of neighbouring steps; areas: from the lowest of them to "
            "the highest.",
            words.empty() ? "" : " ");
    std::string figures;
    for (const Chart& chart : charts) figures += figure(chart, steps);
    return concat(words.empty() ? "" : element("p", "class=\"soft\"", words) + "\n",
                  runs.size() > 1 ? legend_of_runs(runs) : "", in_columns(figures));
}

}  // namespace ringshard::report

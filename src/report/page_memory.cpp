#include <algorithm>
#include <array>

#include "html.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::report {

namespace {

struct Kind {
    const char* title;
    const char* key;
};
constexpr std::array kinds{Kind{"Weights", "memory_weights_bytes"},
                           Kind{"Gathered weights", "memory_gathered_bytes"},
                           Kind{"Gradients", "memory_gradients_bytes"},
                           Kind{"Optimizer", "memory_optimizer_bytes"},
                           Kind{"Activations", "memory_activations_bytes"},
                           Kind{"Communication", "memory_communication_bytes"},
                           Kind{"Staging", "memory_staging_bytes"},
                           Kind{"Copy of a save", "memory_save_copy_bytes"}};
constexpr Kind whole_process{"Whole process", "peak_memory_bytes"};

std::optional<double> most_of(const MetricsLog& metrics, const Kind& kind) {
    const auto values = values_of(metrics, kind.key);
    return values.empty() ? std::nullopt : std::optional(std::ranges::max(values));
}

// Adds a row for a kind of memory, unless no run used it.
void add_row(Stories runs, const Kind& kind, HtmlTable& table) {
    std::vector<std::string> cells{cell(kind.title)};
    bool is_used = false;
    for (const RunStory& run : runs) {
        const auto most = most_of(run.metrics, kind);
        is_used = is_used || most.value_or(0) > 0;
        cells.push_back(number_cell(most ? human_bytes(*most) : ""));
    }
    if (is_used) table.rows.push_back(std::move(cells));
}

std::string table_of_kinds(Stories runs) {
    HtmlTable table{{"Of one rank, at most"}, {}};
    for (const RunStory& run : runs)
        table.heads.push_back(runs.size() == 1 ? "" : run.metrics.name);
    for (const Kind& kind : kinds) add_row(runs, kind, table);
    add_row(runs, whole_process, table);
    return table.rows.empty() ? "" : markup(table, runs.size() > 1 ? "span2" : "");
}

std::string chart_by_kind(const RunStory& run) {
    std::vector<Part> parts;
    for (size_t kind = 0; kind < kinds.size(); ++kind)
        if (most_of(run.metrics, kinds[kind]).value_or(0) > 0)
            parts.push_back(
                {lower_case(kinds[kind].title), series_of(run.metrics, kinds[kind].key), kind});
    const Chart chart = stacked({"Tensors by kind", "memory", Counting::bytes}, parts);
    return chart.is_empty() ? "" : figure(chart, steps_of_runs(Stories(&run, 1)), legend(parts));
}

}  // namespace

std::string memory(Stories runs) {
    std::string figures = runs.size() == 1 ? chart_by_kind(runs.front()) : "";
    const Chart whole =
        chart_of_runs(runs, {"Peak of the whole process", whole_process.key, Counting::bytes});
    if (!whole.is_empty()) figures += figure(whole, steps_of_runs(runs));
    if (figures.empty()) return {};
    return "<p class=\"soft\">Each kind is that of the rank that held most of it.</p>\n" +
           in_columns(figures + table_of_kinds(runs));
}

}  // namespace ringshard::report

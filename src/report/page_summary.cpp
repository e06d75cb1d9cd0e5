#include <algorithm>
#include <set>

#include "html.hpp"
#include "numbers.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"
#include "svg.hpp"

namespace ringshard::report {

namespace {

struct Tile {
    std::string name, value, remark;
};

struct BestLoss {
    std::string key;
    double value;
    int64_t step;
};
// Of the first named set, where there are several.
std::optional<BestLoss> best_evaluation(const MetricsLog& metrics) {
    const std::vector<std::string> keys = metrics.evaluation_losses();
    std::optional<BestLoss> best;
    if (keys.empty()) return best;
    for (const auto& [step, line] : metrics.steps)
        if (const auto loss = MetricsLog::number(line, keys.front()))
            if (!best || *loss < best->value) best = {keys.front(), *loss, step};
    return best;
}

std::optional<double> median_in(const MetricsLog& metrics, std::string_view key) {
    const auto values = values_of(metrics, key);
    return values.empty() ? std::nullopt : std::optional(median_of(values));
}

std::optional<double> largest_in(const MetricsLog& metrics, std::string_view key) {
    const auto values = values_of(metrics, key);
    return values.empty() ? std::nullopt : std::optional(std::ranges::max(values));
}

int64_t whole_checkpoints(const RunStory& run) {
    return std::ranges::count(run.checkpoints, SavedState::Condition::whole,
                              &SavedState::condition);
}

size_t num_attempts(const RunStory& run) {
    std::set<int64_t> attempts;
    for (const Event& event : run.events) attempts.insert(event.attempt);
    return attempts.size();
}

int64_t steps_done(const RunStory& run) {
    return run.metrics.steps.empty() ? 0 : run.metrics.steps.rbegin()->first;
}

Tile steps_tile(const RunStory& run) {
    std::vector<std::string> remarks;
    if (run.status.num_steps) remarks.push_back(format_text("of {}", *run.status.num_steps));
    if (const auto epoch = last_of(run.metrics, "epoch"))
        remarks.push_back(format_text("epoch {}", number_text(*epoch)));
    return {"Steps", std::to_string(steps_done(run)), join(remarks, ", ")};
}

Tile loss_tile(const MetricsLog& metrics) {
    const auto losses = values_of(metrics, "loss");
    if (losses.empty()) return {};
    return {"Loss", number_text(losses.back()),
            format_text("from {}; means of a line's steps", number_text(losses.front()))};
}

Tile evaluation_tile(const MetricsLog& metrics) {
    const auto best = best_evaluation(metrics);
    if (!best) return {};
    return {format_text("Best {}", best->key), number_text(best->value),
            format_text("at step {}", best->step)};
}

Tile speed_tile(const MetricsLog& metrics) {
    const auto speed = median_in(metrics, "tokens_per_second");
    if (!speed) return {};
    const auto share = median_in(metrics, "mfu");
    return {"Tokens/s", number_text(*speed),
            concat("median of the lines",
                   share ? format_text(", mfu {}%", number_text(100 * *share)) : "")};
}

// Names the expert with the most or the fewest tokens of its block, in the last steps.
Tile expert_tile(const MetricsLog& metrics, const char* name, const std::string& extreme) {
    const auto load = last_of(metrics, extreme + "_to_mean");
    const auto block = last_of(metrics, extreme + "_block");
    const auto expert = last_of(metrics, extreme + "_expert");
    if (!load || !block || !expert) return {};
    std::string remark =
        format_text("of the mean: block {}, expert {}", number_text(*block), number_text(*expert));
    const auto dead = last_of(metrics, "dead_experts");
    if (*load == 0 && dead) remark += format_text("; {} without a token", number_text(*dead));
    return {name, number_text(*load), remark};
}

Tile memory_tile(const MetricsLog& metrics) {
    const auto peak = largest_in(metrics, "peak_memory_bytes");
    if (!peak) return {};
    return {"Peak memory", human_bytes(*peak), "of one process"};
}

Tile time_tile(const RunStory& run) {
    if (const auto seconds = last_of(run.metrics, "train_runtime"))
        return {"Time", duration_text(*seconds), "last attempt"};
    if (run.status.state == RunState::running && run.status.seconds_left)
        return {"Time left", duration_text(*run.status.seconds_left), "at this speed"};
    return {};
}

Tile checkpoint_tile(const RunStory& run) {
    if (run.checkpoints.empty()) return {};
    const int64_t whole = whole_checkpoints(run);
    const auto others = static_cast<int64_t>(run.checkpoints.size()) - whole;
    return {"Checkpoints", format_text("{} whole", whole),
            others == 0 ? run.checkpoints.front().name : format_text("{} not whole", others)};
}

Tile attempt_tile(const RunStory& run) {
    const size_t attempts = num_attempts(run);
    if (attempts == 0) return {};
    const auto bad = std::ranges::count_if(run.events, [](const Event& event) {
        return event.weight == Event::Weight::bad || event.weight == Event::Weight::warning;
    });
    return {"Attempts", std::to_string(attempts),
            bad == 0 ? "no incidents" : concat(bad, bad == 1 ? " incident" : " incidents")};
}

std::string or_nothing(const std::optional<double>& value) {
    return value ? number_text(*value) : "";
}

std::string steps_text(const RunStory& run) {
    const std::string done = std::to_string(steps_done(run));
    return run.status.num_steps ? format_text("{} of {}", done, *run.status.num_steps) : done;
}

std::string mesh_text(const RunRecord& record) {
    return format_text("{}×{}×{}×{}", record.replicate, record.shard, record.ring, record.ulysses);
}

}  // namespace

std::vector<double> values_of(const MetricsLog& metrics, std::string_view key) {
    std::vector<double> values;
    for (const auto& [step, line] : metrics.steps)
        if (const auto value = MetricsLog::number(line, key)) values.push_back(*value);
    return values;
}

std::optional<double> last_of(const MetricsLog& metrics, std::string_view key) {
    const auto values = values_of(metrics, key);
    return values.empty() ? std::nullopt : std::optional(values.back());
}

double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

std::string state_mark(const RunStatus& status) {
    if (status.state == RunState::missing) return {};  // a metrics file alone has no status
    const bool is_good = status.state == RunState::complete || status.state == RunState::running;
    const bool is_bad = status.state == RunState::failed || status.state == RunState::lost;
    std::string words = to_text(status.state);
    if (status.state == RunState::failed && status.exit_code)
        words += format_text(" ({})", *status.exit_code);
    return format_text("<span class=\"state{}\">{}</span>",
                       is_good  ? " good"
                       : is_bad ? " bad"
                                : "",
                       escaped(words));
}

std::string summary_tiles(const RunStory& run) {
    std::string tiles;
    for (const Tile& tile :
         {steps_tile(run), loss_tile(run.metrics), evaluation_tile(run.metrics),
          speed_tile(run.metrics), memory_tile(run.metrics), time_tile(run), checkpoint_tile(run),
          attempt_tile(run), expert_tile(run.metrics, "Busiest expert", "expert_load_max"),
          expert_tile(run.metrics, "Least busy expert", "expert_load_min")})
        if (!tile.name.empty())
            tiles += format_text("<div class=\"tile\">{}{}{}</div>\n", text_in("span", tile.name),
                                 text_in("b", tile.value), text_in("span", tile.remark));
    return element("div", "class=\"tiles\"", "\n" + tiles) + "\n";
}

std::string comparison_table(Stories runs) {
    HtmlTable table{{"Run", "State", "Steps", "Loss", "Best eval_loss", "Tokens/s", "Peak memory",
                     "Mesh", "Attempts"},
                    {}};
    for (size_t i = 0; i < runs.size(); ++i) {
        const RunStory& run = runs[i];
        const auto best = best_evaluation(run.metrics);
        const auto peak = largest_in(run.metrics, "peak_memory_bytes");
        table.rows.push_back(
            {element("td", "", line_sample(i) + " " + text_in("b", run.metrics.name)),
             element("td", "", state_mark(run.status)), number_cell(steps_text(run)),
             number_cell(or_nothing(last_of(run.metrics, "loss"))),
             number_cell(best ? number_text(best->value) : ""),
             number_cell(or_nothing(median_in(run.metrics, "tokens_per_second"))),
             number_cell(peak ? human_bytes(*peak) : ""),
             number_cell(run.record ? mesh_text(*run.record) : ""),
             number_cell(std::to_string(num_attempts(run)))});
    }
    return markup(table);
}

}  // namespace ringshard::report

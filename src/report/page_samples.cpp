#include <algorithm>

#include "html.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::report {

namespace {

using text::Value;

std::string text_of(const Value& sample, std::string_view key) {
    const Value* member = sample.find(key);
    return member != nullptr && member->string() != nullptr ? *member->string() : std::string();
}

std::string table_of(const Value::List& samples) {
    HtmlTable table{{"Prompt", "Text", "Tokens"}, {}};
    for (const Value& sample : samples) {
        const Value* ended = sample.find("has_ended");
        const bool has_ended = ended != nullptr && ended->truth() != nullptr && *ended->truth();
        const auto tokens = MetricsLog::number(sample, "num_tokens");
        table.rows.push_back({long_cell(text_of(sample, "prompt")),
                              long_cell(text_of(sample, "text") + (has_ended ? "" : " ...")),
                              number_cell(tokens ? shortest(*tokens) : "")});
    }
    return markup(table);
}

}  // namespace

std::string samples(const RunStory& run) {
    std::vector<std::pair<int64_t, std::string>> tables;  // by step, newest first
    for (const auto& [step, line] : run.metrics.steps) {
        const Value* samples = line.find("eval_samples");
        if (samples == nullptr || samples->list() == nullptr) continue;
        tables.insert(tables.begin(), {step, table_of(*samples->list())});
    }
    if (tables.empty()) return {};
    std::string out =
        text_in("p", format_text(
                         "After step {}. Three dots stand where the limit of tokens ended a text.",
                         tables.front().first)) +
        tables.front().second;
    constexpr size_t most_shown = 20;
    const size_t shown = std::min(tables.size(), most_shown);
    for (size_t i = 1; i < shown; ++i)
        out += folded(format_text("After step {}", tables[i].first), tables[i].second);
    return out;
}

}  // namespace ringshard::report

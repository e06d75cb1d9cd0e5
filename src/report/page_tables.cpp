#include <algorithm>

#include "html.hpp"
#include "numbers.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"
#include "svg.hpp"

namespace ringshard::report {

namespace {

std::string marked(const char* look, const std::string& text) {
    return element("td", format_text("class=\"{}\"", look), escaped(text));
}

// --- checkpoints

std::string condition_cell(SavedState::Condition condition) {
    switch (condition) {
        case SavedState::Condition::whole: return marked("good", "whole");
        case SavedState::Condition::damaged: return marked("bad", "damaged");
        case SavedState::Condition::superseded: return marked("soft", "superseded");
    }
    return {};
}

// Summarizes the lines of all saves.
std::string describe_saves(const MetricsLog& metrics) {
    const auto stalls = values_of(metrics, "save_stall_s");
    if (stalls.empty()) return {};
    const auto seconds = values_of(metrics, "save_s");
    std::string text =
        format_text("{}{}: training stood still for {} in the median and {} at most", stalls.size(),
                    stalls.size() == 1 ? " save" : " saves", duration_text(median_of(stalls)),
                    duration_text(std::ranges::max(stalls)));
    if (!seconds.empty())
        text += format_text("; it was durable after {} in the median",
                            duration_text(median_of(seconds)));
    return text_in("p", text + ".");
}

// --- events

const char* look_of(Event::Weight weight) {
    switch (weight) {
        case Event::Weight::plain: return "plain";
        case Event::Weight::good: return "good";
        case Event::Weight::warning: return "warning";
        case Event::Weight::bad: return "bad";
    }
    return "";
}

// --- settings

// Set for this run, set by a profile, or default.
enum class Given { here, by_profile, not_at_all };

Given given(const RunRecord::Setting& setting) {
    if (!setting.is_given) return Given::not_at_all;
    return setting.origin.starts_with("profile ") ? Given::by_profile : Given::here;
}

HtmlTable settings_table(const RunRecord& record, Given wanted) {
    HtmlTable table{{"Setting", "Value", "From"}, {}};
    for (const RunRecord::Setting& setting : record.settings)
        if (given(setting) == wanted)
            table.rows.push_back(
                {name_cell(setting.name), name_cell(setting.value), cell(setting.origin)});
    return table;
}

}  // namespace

std::string checkpoints(const RunStory& run) {
    std::string saves = describe_saves(run.metrics);
    if (run.checkpoints.empty()) return saves;
    HtmlTable table{{"Checkpoint", "Condition", "Size", "Attempt", "Remark"}, {}};
    for (const SavedState& state : run.checkpoints)
        table.rows.push_back(
            {name_cell(state.name), condition_cell(state.condition),
             number_cell(state.bytes > 0 ? human_bytes(static_cast<double>(state.bytes)) : ""),
             number_cell(state.attempt > 0 ? std::to_string(state.attempt) : ""),
             long_cell(state.remark)});
    const char* const how = run.verification == Verification::every_byte
                                ? "Every byte was compared with what was written."
                                : "Their files are there and have the right sizes; "
                                  "--verify_checkpoint full looks at every byte.";
    return saves + markup(table) + element("p", "class=\"soft\"", escaped(how)) + "\n";
}

std::string events(const RunStory& run) {
    constexpr size_t most = 500;  // as many as a user reads
    if (run.events.empty()) return {};
    HtmlTable table{{"Attempt", "Step", "What", "Detail"}, {}};
    const size_t first = run.events.size() > most ? run.events.size() - most : 0;
    for (size_t i = first; i < run.events.size(); ++i) {
        const Event& event = run.events[i];
        table.rows.push_back({number_cell(std::to_string(event.attempt)),
                              number_cell(event.step ? std::to_string(*event.step) : ""),
                              marked(look_of(event.weight), event.what), long_cell(event.detail)});
    }
    const std::string left_out =
        first == 0 ? "" : text_in("p", format_text("The last {} of {}.", most, run.events.size()));
    return left_out + markup(table);
}

std::string settings(const RunRecord& record) {
    const HtmlTable here = settings_table(record, Given::here);
    const HtmlTable by_profile = settings_table(record, Given::by_profile);
    const HtmlTable others = settings_table(record, Given::not_at_all);
    std::string out;
    if (!here.rows.empty()) out += markup(here);
    if (!by_profile.rows.empty())
        out +=
            folded(format_text("{} from the profile", by_profile.rows.size()), markup(by_profile));
    if (!others.rows.empty())
        out +=
            folded(format_text("{} more, at their defaults", others.rows.size()), markup(others));
    std::string versions;
    for (const auto& [name, version] : record.versions)
        versions += format_text("{}{} {}", versions.empty() ? "" : ", ", name, version);
    if (!versions.empty()) out += element("p", "class=\"soft\"", escaped("Ran with " + versions));
    return out + "\n";
}

std::string differing_settings(Stories runs) {
    HtmlTable table{{"Setting"}, {}};
    std::vector<std::string> names;  // in the order of the first record that has them
    for (const RunStory& run : runs) {
        if (!run.record) continue;
        table.heads.push_back(run.metrics.name);
        // num_processes is what a profile was written for; the mesh says how many ranks there were.
        for (const RunRecord::Setting& setting : run.record->settings)
            if (setting.has_effect && setting.name != "num_processes" &&
                std::ranges::find(names, setting.name) == names.end())
                names.push_back(setting.name);
    }
    if (table.heads.size() < 3) return {};  // fewer than two to compare
    for (const std::string& name : names) {
        std::vector<std::string> values;
        for (const RunStory& run : runs) {
            if (!run.record) continue;
            const RunRecord::Setting* setting = run.record->find(name);
            values.push_back(setting == nullptr ? "" : setting->value);
        }
        if (std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end()) continue;
        std::vector<std::string> cells{name_cell(name)};
        for (const std::string& value : values) cells.push_back(name_cell(value));
        table.rows.push_back(std::move(cells));
    }
    if (table.rows.empty()) return "<p>They have the same settings.</p>\n";
    return markup(table);
}

}  // namespace ringshard::report

#include <algorithm>
#include <map>

#include "numbers.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/fork.hpp"
#include "ringshard/report/run_story.hpp"

namespace ringshard::report {

namespace {

namespace fs = std::filesystem;
using checkpoint::AttemptEnd;
using Weight = Event::Weight;
using Events = std::vector<Event>;

// --- attempts

// Explains the start of an attempt by the end of the one before.
std::string why_it_began(const fs::path& run, int64_t attempt, int64_t first) {
    if (attempt == first) {
        const auto parent = checkpoint::read_parent(run);
        return parent ? format_text("began from {}", parent->checkpoint.string()) : "began";
    }
    const auto before = checkpoint::read_end(run, attempt - 1);
    if (before && before->kind == AttemptEnd::Kind::rewind) return "rewind: the run went back";
    const bool was_stopped = before && before->kind == AttemptEnd::Kind::failure &&
                             before->failure.code == ExitCode::stopped_early;
    return was_stopped ? "went on" : "began again";
}

// Returns nothing if the attempt may be running, or if its crash or hang file explains its end.
std::optional<Event> describe_end(const fs::path& run, int64_t attempt, bool may_be_silent) {
    const auto end = checkpoint::read_end(run, attempt);
    if (!end && may_be_silent) return std::nullopt;
    Event event{.attempt = attempt};
    if (!end) {
        event.weight = Weight::warning;
        event.what = "ended without a report";
        event.detail = "killed from outside, or lost with its node";
    } else if (end->kind == AttemptEnd::Kind::rewind) {
        event.weight = Weight::warning;
        event.what = "loss or gradient not finite";
        event.detail = "on_nan = rewind";
    } else if (end->kind == AttemptEnd::Kind::complete) {
        event.weight = Weight::good;
        event.what = "complete";
    } else {
        const bool stopped = end->failure.code == ExitCode::stopped_early;
        event.weight = stopped ? Weight::plain : Weight::bad;
        event.what = stopped ? "stopped" : "failed";
        event.what += format_text(" ({})", number(end->failure.code));
        event.detail = end->failure.message;
    }
    return event;
}

// --- crash and hang files

// Returns the rank in a file name: 5 for "crash-rank5.txt" of kind "crash".
std::optional<int64_t> rank_of_trace(std::string_view name, std::string_view kind) {
    constexpr std::string_view ending = ".txt";
    if (!name.ends_with(ending)) return std::nullopt;
    return number_in_name(name.substr(0, name.size() - ending.size()),
                          format_text("{}-rank", kind));
}

std::string first_lines(const fs::path& file, size_t count) {
    std::vector<std::string> lines = split(read_file(file).value_or(""), '\n');
    lines.resize(std::min(lines.size(), count));
    return std::string(trim(join(lines, "; ")));
}

// Adds the files of one attempt's folder. Shows one rank's hang, since every rank describes it in
// the same words, but several crashes.
void add_traces(const std::vector<fs::path>& in_folder, int64_t attempt, const std::string& kind,
                size_t most_shown, Events& events) {
    std::map<int64_t, fs::path> files;  // by rank
    for (const fs::path& entry : in_folder)
        if (const auto rank = rank_of_trace(entry.filename().string(), kind)) files[*rank] = entry;
    size_t shown = 0;
    for (const auto& [rank, file] : files) {
        if (++shown > most_shown) break;
        const bool is_last = shown == most_shown && files.size() > most_shown;
        events.push_back({.attempt = attempt,
                          .weight = Weight::bad,
                          .what = format_text("{} of rank {}", kind, rank),
                          .detail = first_lines(file, 2)});
        if (is_last)
            events.back().what += format_text(" and of {} more", files.size() - most_shown);
    }
}

// --- lines of metrics

void add_lines(const MetricsLog& metrics, Events& events) {
    for (const auto& [step, line] : metrics.steps) {
        const auto attempt = static_cast<int64_t>(MetricsLog::number(line, "attempt").value_or(1));
        if (const auto skipped = MetricsLog::number(line, "skipped_steps"))
            events.push_back({attempt, step, Weight::warning,
                              format_text("{}{} skipped", number_text(*skipped),
                                          *skipped == 1 ? " step" : " steps"),
                              "since the line before, because loss or gradient were not finite"});
        if (const auto failed = MetricsLog::number(line, "failed_saves"); failed && *failed > 0)
            events.push_back(
                {attempt, step, Weight::bad,
                 format_text("the save of step {} failed",
                             number_text(MetricsLog::number(line, "save_step").value_or(0))),
                 format_text("{} in a row", number_text(*failed))});
    }
}

// Order within an attempt: begin, steps and traces, end.
enum class Place { begin, step, trace, end };
struct Placed {
    Event event;
    Place place;
};

}  // namespace

std::vector<Event> list_events(const fs::path& run, const MetricsLog& metrics) {
    const checkpoint::Attempts attempts(run);
    std::vector<Placed> placed;
    const auto add = [&](const Events& events, Place place) {
        for (const Event& event : events) placed.push_back({event, place});
    };
    Events traces;
    std::error_code ignored;
    for (const auto& [attempt, start] : attempts.starts()) {
        const auto files = folder_entries(checkpoint::attempt_folder(run, attempt), ignored);
        add_traces(files, attempt, "crash", 3, traces);
        add_traces(files, attempt, "hang", 1, traces);
    }
    add(traces, Place::trace);
    Events of_lines;
    add_lines(metrics, of_lines);
    add(of_lines, Place::step);
    for (const auto& [attempt, start] : attempts.starts()) {
        const int64_t first = attempts.starts().begin()->first;
        add({{attempt, start, Weight::plain, why_it_began(run, attempt, first),
              start ? format_text("from step {}", *start) : "has not come to its first step"}},
            Place::begin);
        const bool left_a_trace =
            std::ranges::find(traces, attempt, &Event::attempt) != traces.end();
        if (auto end = describe_end(run, attempt, left_a_trace || attempt == attempts.newest()))
            add({*end}, Place::end);
    }
    std::ranges::stable_sort(placed, [](const Placed& a, const Placed& b) {
        return std::pair(a.event.attempt, a.place) < std::pair(b.event.attempt, b.place);
    });
    Events events;
    for (Placed& one : placed) events.push_back(std::move(one.event));
    return events;
}

}  // namespace ringshard::report

#include <algorithm>

#include "numbered_name.hpp"
#include "numbers.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/report/run_story.hpp"

namespace ringshard::report {

namespace {

namespace fs = std::filesystem;
using checkpoint::AttemptEnd;
using Weight = Event::Weight;
using Events = std::vector<Event>;

// --- attempts

// How an attempt came to begin, from how the one before it ended.
std::string why_it_began(const fs::path& run, int64_t attempt, int64_t first) {
    if (attempt == first) return "began";
    const auto before = checkpoint::read_end(run, attempt - 1);
    if (!before) return "began after one that was lost";
    switch (before->kind) {
        case AttemptEnd::Kind::rewind: return "rewind: the run went back";
        case AttemptEnd::Kind::complete: return "began after the end";
        case AttemptEnd::Kind::failure:
            return before->failure.code == ExitCode::stopped_early ? "went on"
                                                                   : "began after a failure";
    }
    return {};
}

std::optional<Event> describe_end(const fs::path& run, int64_t attempt, int64_t newest) {
    const auto end = checkpoint::read_end(run, attempt);
    if (!end && attempt == newest) return std::nullopt;  // it may be running
    Event event{.attempt = attempt};
    if (!end) {
        event.weight = Weight::warning;
        event.what = "ended without a word";
        event.detail = "killed from outside, or lost with its node";
    } else if (end->kind == AttemptEnd::Kind::rewind) {
        event.weight = Weight::warning;
        event.what = "numbers went bad";
        event.detail = "on_nan = rewind";
    } else if (end->kind == AttemptEnd::Kind::complete) {
        event.weight = Weight::good;
        event.what = "complete";
    } else {
        const bool stopped = end->failure.code == ExitCode::stopped_early;
        event.weight = stopped ? Weight::plain : Weight::bad;
        event.what = stopped ? "stopped" : "failed";
        event.what += concat(" (", number(end->failure.code), ")");
        event.detail = end->failure.message;
    }
    return event;
}

// --- files that say that something went wrong

struct OfRank {
    int64_t attempt, rank;
};

// "crash-2-rank5.txt" after "crash-".
std::optional<OfRank> of_rank(std::string_view name, std::string_view before) {
    if (!name.starts_with(before) || !name.ends_with(".txt")) return std::nullopt;
    name = name.substr(before.size(), name.size() - before.size() - 4);
    const size_t dash = name.find("-rank");
    if (dash == std::string_view::npos) return std::nullopt;
    const auto attempt = read_whole_number(name.substr(0, dash));
    const auto rank = read_whole_number(name.substr(dash + 5));
    if (!attempt || !rank) return std::nullopt;
    return OfRank{*attempt, *rank};
}

std::string first_lines(const fs::path& file, size_t count) {
    std::vector<std::string> lines = split(read_file(file).value_or(""), '\n');
    lines.resize(std::min(lines.size(), count));
    return std::string(trim(join(lines, "; ")));
}

void add_files(const fs::path& run, Events& events) {
    std::error_code ignored;
    for (const fs::path& entry : folder_entries(run, ignored)) {
        const std::string name = entry.filename();
        if (const auto crash = of_rank(name, "crash-"))
            events.push_back({.attempt = crash->attempt,
                              .weight = Weight::bad,
                              .what = concat("crash of rank ", crash->rank),
                              .detail = first_lines(entry, 2)});
        if (const auto hang = of_rank(name, "hang-"))
            events.push_back({.attempt = hang->attempt,
                              .weight = Weight::bad,
                              .what = concat("hang, seen by rank ", hang->rank),
                              .detail = first_lines(entry, 2)});
    }
}

// --- lines of metrics

void add_lines(const MetricsLog& metrics, Events& events) {
    for (const auto& [step, line] : metrics.steps) {
        const auto attempt = static_cast<int64_t>(MetricsLog::number(line, "attempt").value_or(1));
        if (const auto skipped = MetricsLog::number(line, "skipped_steps"))
            events.push_back({attempt, step, Weight::warning,
                              concat(number_text(*skipped), " skipped"),
                              "steps since the line before, whose numbers went bad"});
        if (const auto failed = MetricsLog::number(line, "failed_saves"); failed && *failed > 0)
            events.push_back(
                {attempt, step, Weight::bad,
                 concat("the save of step ",
                        number_text(MetricsLog::number(line, "save_step").value_or(0)), " failed"),
                 concat(number_text(*failed), " in a row")});
    }
}

// An attempt begins before its steps, and ends after them.
enum class Place { begin, step, file, end };
struct Placed {
    Event event;
    Place place;
};

}  // namespace

std::vector<Event> list_events(const fs::path& run, const MetricsLog& metrics) {
    const checkpoint::Attempts attempts(run);
    std::vector<Placed> placed;
    const auto add = [&](Events events, Place place) {
        for (Event& event : events) placed.push_back({std::move(event), place});
    };
    for (const auto& [attempt, start] : attempts.starts()) {
        const int64_t first = attempts.starts().begin()->first;
        add({{attempt, start, Weight::plain, why_it_began(run, attempt, first),
              start ? concat("goes on from step ", *start) : "ended before its first step"}},
            Place::begin);
        if (auto end = describe_end(run, attempt, attempts.newest())) add({*end}, Place::end);
    }
    Events events;
    add_files(run, events);
    std::ranges::sort(events, {}, &Event::what);
    add(std::move(events), Place::file);
    events.clear();
    add_lines(metrics, events);
    add(std::move(events), Place::step);
    std::ranges::stable_sort(placed, [](const Placed& a, const Placed& b) {
        return std::pair(a.event.attempt, a.place) < std::pair(b.event.attempt, b.place);
    });
    events.clear();
    for (Placed& one : placed) events.push_back(std::move(one.event));
    return events;
}

}  // namespace ringshard::report

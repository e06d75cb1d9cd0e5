#include "trackers.hpp"

#include <array>
#include <cmath>

#include "ringshard/base/text.hpp"

namespace ringshard::train {

namespace {

struct Known {
    const char* name;
    Expected<std::unique_ptr<report::Tracker>> (*open)(const report::TrackedRun&);
};
constexpr std::array known{Known{"tensorboard", report::open_tensorboard},
                           Known{"wandb", report::open_wandb}, Known{"mlflow", report::open_mlflow},
                           Known{"trackio", report::open_trackio}};

// `otherwise`: the time of a line that was written without one.
report::TrackedLine tracked(const MetricsLine& line, double otherwise) {
    const double time = number_in(line, "time");
    report::TrackedLine made{.step = static_cast<int64_t>(number_in(line, "step")),
                             .time = std::isnan(time) ? otherwise : time,
                             .numbers = {}};
    for (const auto& [name, value] : line)
        if (name != "step" && name != "time" && name != "attempt")
            made.numbers.emplace_back(name, number_in(line, name));
    return made;
}

}  // namespace

Trackers::Trackers(const config::LoggingSettings& settings, const report::TrackedRun& run, Say say)
    : began_(run.attempt_began), say_(std::move(say)) {
    for (const Known& tracker : known) {
        if (!settings.reports_to(tracker.name)) continue;
        auto opened = tracker.open(run);
        if (opened)
            open_.push_back({tracker.name, std::move(opened).value()});
        else
            warn(tracker.name, opened.failure());
    }
}

void Trackers::restore(const MetricsLine& line) {
    if (std::isnan(number_in(line, "step"))) return;  // a line that another program wrote
    for_all(
        [made = tracked(line, began_)](report::Tracker& tracker) { return tracker.restore(made); });
}

void Trackers::add(const MetricsLine& line) {
    for_all([made = tracked(line, began_)](report::Tracker& tracker) { return tracker.add(made); });
}

void Trackers::end(double time) {
    for_all([time](report::Tracker& tracker) { return tracker.end(time); });
    for (const Open& open : open_)
        if (const std::string command = open.tracker->command(); !command.empty())
            say_(format_text("{}: {}", open.name, command));
}

void Trackers::for_all(const Write& write) {
    std::erase_if(open_, [&](const Open& open) {
        const auto failure = write(*open.tracker);
        if (failure) warn(open.name, *failure);
        return failure.has_value();
    });
}

void Trackers::warn(const std::string& name, const Failure& failure) const {
    say_(
        format_text("warning: {}; nothing more is written for {} in this attempt, and "
                    "metrics.jsonl has all of it",
                    failure.message, name));
}

}  // namespace ringshard::train

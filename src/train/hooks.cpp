#include "hooks.hpp"

#include <unistd.h>

#include <algorithm>

#include "metrics_text.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::train {

namespace {

constexpr size_t most_waiting = 100;

enum : size_t { log, save, evaluate, end_of_run };

bool has(const MetricsLine& line, std::string_view name) {
    return std::ranges::any_of(line, [name](const auto& field) { return field.first == name; });
}

// Also of a set with a name: eval_NAME_runtime.
bool is_evaluation(const MetricsLine& line) {
    return std::ranges::any_of(line, [](const auto& number) {
        return number.first.starts_with("eval_") && number.first.ends_with("_runtime");
    });
}

}  // namespace

Hooks::Hooks(const config::LoggingSettings& settings, const std::filesystem::path& output_dir,
             Say say)
    : events_{{{"log", settings.on_log},
               {"save", settings.on_save},
               {"evaluate", settings.on_evaluate},
               {"end", settings.on_end}}},
      output_dir_(json_text(std::filesystem::absolute(output_dir).string())),
      timeout_(settings.hook_timeout_s),
      say_(std::move(say)) {}

void Hooks::take(const MetricsLine& line) {
    if (has(line, "save_step")) {
        if (number_in(line, "failed_saves") == 0) add(events_[save], fields_of(line));
    } else if (is_evaluation(line)) {
        add(events_[evaluate], fields_of(line));
    } else if (!has(line, "train_runtime")) {
        add(events_[log], fields_of(line));
    }
}

void Hooks::add(Event& event, const std::string& fields) {
    if (event.command.empty()) return;
    if (event.waiting.size() == most_waiting) {
        event.waiting.pop_front();
        if (event.num_dropped++ == 0)
            say_(
                format_text("warning: on_{} = {} is slower than its events: {} of them wait, and "
                            "the oldest is left out from now on",
                            event.name, event.command, most_waiting));
    }
    event.waiting.push_back(format_text("{{\"event\": \"{}\", \"output_dir\": {}, {}}}\n",
                                        event.name, output_dir_, fields));
    look_at(event);
}

void Hooks::look_at(Event& event) {
    if (event.running) {
        const auto ended = event.running->poll();
        const bool is_late = !ended && event.running->seconds() > timeout_;
        if (!ended && !is_late) return;
        event.running.reset();
        if (is_late || !ended->empty())
            say_(format_text("warning: on_{} = {} {}; training is not affected", event.name,
                             event.command,
                             is_late ? format_text("ran longer than hook_timeout_s = {} and was "
                                                   "ended",
                                                   timeout_)
                                     : *ended));
    }
    while (!event.running && !event.waiting.empty()) {
        auto started = job::SideProgram::start(event.command, event.waiting.front());
        event.waiting.pop_front();
        if (started)
            event.running = std::move(started).value();
        else
            say_("warning: " + started.failure().message);
    }
}

void Hooks::look() {
    for (Event& event : events_) look_at(event);
}

bool Hooks::is_idle() const {
    return std::ranges::all_of(
        events_, [](const Event& event) { return !event.running && event.waiting.empty(); });
}

void Hooks::end(int64_t step, int exit_code, double seconds) {
    add(events_[end_of_run], format_text("\"step\": {}, \"exit_code\": {}", step, exit_code));
    const Timer waited;
    while (!is_idle() && waited.seconds() < seconds) {
        usleep(10'000);
        look();
    }
    for (Event& event : events_)
        if (event.running || !event.waiting.empty())
            say_(
                format_text("warning: the run ends while on_{} = {} has not: it is ended, and {} "
                            "events are left out",
                            event.name, event.command, event.waiting.size()));
    for (Event& event : events_) {
        event.running.reset();
        event.waiting.clear();
    }
}

}  // namespace ringshard::train

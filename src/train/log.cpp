#include "log.hpp"

#include "ringshard/base/wall_clock.hpp"

namespace ringshard::train {

Log::Log(const config::LoggingSettings& settings, const comm::Group& world,
         const checkpoint::Store& store, report::TrackedRun run, int64_t first_step,
         int64_t num_steps)
    : world_(world),
      settings_(settings),
      run_(std::move(run)),
      file_(store.claim(), store.output_dir()),
      progress_(world.is_root() && !settings.disable_tqdm && Progress::stderr_is_terminal(),
                first_step, num_steps) {}

std::optional<comm::AgreedFailure> Log::begin(double peak_operations,
                                              const std::function<void(const MetricsLine&)>& show) {
    usage_.num_ranks = world_.size();
    usage_.peak_operations = world_.sum(std::vector<double>{peak_operations}).front();
    std::optional<Failure> mine;
    if (world_.is_root()) {
        const auto warn = [this](const std::string& text) { say(text); };
        trackers_ = Trackers(settings_, run_, warn);
        hooks_ = Hooks(settings_, file_.folder(), warn);
        mine = file_.clean([&](const MetricsLine& line) {
            history_.add(line);
            trackers_.restore(line);
            show(line);
        });
    }
    operations_ = history_.total_flos();
    return comm::first_failure(world_, mine);
}

std::optional<Failure> Log::record(MetricsLine line, const std::vector<TextSample>& samples) {
    line.emplace_back("time", seconds_since_1970());
    auto appended = file_.append(line, samples);
    if (appended.failure) return appended.failure;
    history_.add(line);
    trackers_.add(line);
    hooks_.take(line);
    if (!appended.warning.empty()) progress_.say("warning: " + appended.warning);
    return std::nullopt;
}

void Log::add(const StepNumbers& numbers) {
    window_.add(numbers);
    operations_ += numbers.operations;
    if (!world_.is_root()) return;
    progress_.step(numbers);
    for (const std::string& name : numbers.attention)
        if (attention_.insert(name).second)
            progress_.say(format_text("attention: {}, from step {}", name, numbers.step));
    if (numbers.is_skipped())
        progress_.say("warning: " + numbers.skipped_because + ". The step is skipped");
}

std::optional<comm::AgreedFailure> Log::write_steps(const MemoryByKind& memory) {
    if (window_.is_empty()) return std::nullopt;
    StepWindow::Summary summary = window_.take();
    usage_.take_maxima(memory, world_);
    MetricsLine line = step_line(summary, usage_);
    line.emplace_back("total_flos", operations_);
    std::optional<Failure> failure;
    if (world_.is_root()) {
        progress_.logged(summary);
        failure = record(line);
    }
    return comm::first_failure(world_, failure);
}

std::optional<comm::AgreedFailure> Log::write(const MetricsLine& line, const std::string& shown,
                                              const std::vector<TextSample>& samples) {
    std::optional<Failure> failure;
    if (world_.is_root()) {
        if (!shown.empty()) progress_.say(shown);
        failure = record(line, samples);
    }
    return comm::first_failure(world_, failure);
}

void Log::say(const std::string& text) {
    if (world_.is_root()) progress_.say(text);
}

std::optional<comm::AgreedFailure> Log::end() {
    trackers_.end(seconds_since_1970());
    return comm::first_failure(world_, world_.is_root() ? file_.write_kept() : std::nullopt);
}

}  // namespace ringshard::train

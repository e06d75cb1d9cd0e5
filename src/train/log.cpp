#include "log.hpp"

#include "ringshard/base/wall_clock.hpp"

#include "summary.hpp"

namespace ringshard::train {

Log::Log(const config::LoggingSettings& settings, const comm::Group& world,
         const checkpoint::Store& store, report::TrackedRun run,
         const checkpoint::Progress& beginning, int64_t num_steps)
    : world_(world),
      settings_(settings),
      run_(std::move(run)),
      sums_before_(beginning.sums),
      file_(store.claim(), store.output_dir()),
      history_(store.output_dir()),
      progress_(world.is_root() && !settings.disable_tqdm && Progress::stderr_is_terminal(),
                beginning.step, num_steps) {}

std::optional<Failure> Log::read_lines(const std::filesystem::path& state,
                                       const std::function<void(const MetricsLine&)>& show) {
    if (!state.empty()) {
        const auto warning = file_.restore(state);
        if (!warning) return warning.failure();
        if (!warning.value().empty()) progress_.say("warning: " + warning.value());
    }
    return file_.clean([&](const MetricsLine& line) {
        history_.add(line);
        trackers_.restore(line);
        show(line);
    });
}

std::optional<comm::AgreedFailure> Log::begin(double peak_operations,
                                              const std::filesystem::path& state,
                                              const std::function<void(const MetricsLine&)>& show) {
    usage_.num_ranks = world_.size();
    usage_.peak_operations = world_.sum(std::vector<double>{peak_operations}).front();
    std::optional<Failure> mine;
    if (world_.is_root()) {
        const auto warn = [this](const std::string& text) { say(text); };
        trackers_ = Trackers(settings_, run_, warn);
        hooks_ = Hooks(settings_, file_.folder(), warn);
        mine = read_lines(state, show);
    }
    operations_ = sums_before().operations;
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
    skips_.resize(numbers.learners.size());
    for (size_t learner = 0; learner < skips_.size(); ++learner)
        if (const StepNumbers& mine = numbers.learners[learner]; mine.is_skipped())
            if (const std::string warning = skips_[learner].warning_of(mine); !warning.empty())
                progress_.say(warning);
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
        for (const TextSample& sample : samples) progress_.say(sample_text(sample));
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

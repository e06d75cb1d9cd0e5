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
      metrics_(store.claim(), store.output_dir(), beginning.sums,
               [this](const std::string& text) { say(text); }),
      progress_(world.is_root() && !settings.disable_tqdm && Progress::stderr_is_terminal(),
                beginning.step, num_steps) {}

std::optional<comm::AgreedFailure> Log::begin(double peak_operations,
                                              const std::filesystem::path& state,
                                              const std::function<void(const MetricsLine&)>& show) {
    usage_.num_ranks = world_.size();
    usage_.peak_operations = world_.sum(std::vector<double>{peak_operations}).front();
    std::optional<Failure> mine;
    if (world_.is_root()) {
        const auto warn = [this](const std::string& text) { say(text); };
        trackers_ = Trackers(settings_, run_, warn);
        hooks_ = Hooks(settings_, metrics_.folder(), warn);
        mine = metrics_.read_lines(state, [&](const MetricsLine& line) {
            trackers_.restore(line);
            show(line);
        });
    }
    metrics_.begin();
    return comm::first_failure(world_, mine);
}

std::optional<Failure> Log::record(MetricsLine line, const std::vector<TextSample>& samples) {
    if (auto failure = metrics_.record(line, samples)) return failure;
    trackers_.add(line);
    hooks_.take(line);
    return std::nullopt;
}

void Log::add(const StepNumbers& numbers) {
    metrics_.add(numbers);
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
    const auto steps = metrics_.take_steps();
    if (!steps) return std::nullopt;
    usage_.take_maxima(memory, world_);
    std::optional<Failure> failure;
    if (world_.is_root()) {
        progress_.logged(*steps);
        failure = record(metrics_.line_of(*steps, usage_));
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
    return comm::first_failure(world_, world_.is_root() ? metrics_.write_kept() : std::nullopt);
}

}  // namespace ringshard::train

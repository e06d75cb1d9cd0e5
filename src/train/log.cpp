#include "log.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ringshard::train {

namespace {

double seconds_since_1970() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

}  // namespace

Log::Log(const config::LoggingSettings& settings, const comm::Group& world,
         const checkpoint::Store& store, int64_t first_step, int64_t num_steps)
    : world_(world),
      output_dir_(store.output_dir()),
      first_step_(first_step),
      wants_tensorboard_(settings.reports_to_tensorboard()),
      file_(store.claim(), store.output_dir()),
      progress_(world.is_root() && !settings.disable_tqdm && Progress::stderr_is_terminal(),
                first_step, num_steps) {}

std::optional<comm::AgreedFailure> Log::begin(double peak_operations,
                                              const std::function<void(const MetricsLine&)>& show) {
    usage_.num_ranks = world_.size();
    usage_.peak_operations = world_.sum(std::vector<double>{peak_operations}).front();
    std::optional<Failure> mine;
    if (world_.is_root()) {
        mine = file_.clean([&](const MetricsLine& line) {
            history_.add(line);
            show(line);
        });
        if (!mine && wants_tensorboard_) mine = open_tensorboard();
    }
    operations_ = history_.total_flos();
    return comm::first_failure(world_, mine);
}

std::optional<Failure> Log::open_tensorboard() {
    auto file = report::TensorBoardFile::create(output_dir_ / "tensorboard", comm::host_name(),
                                                seconds_since_1970(), first_step_ + 1);
    if (!file) return file.failure();
    tensorboard_.emplace(std::move(file).value());
    return std::nullopt;
}

std::optional<Failure> Log::record(const MetricsLine& line,
                                   const std::vector<TextSample>& samples) {
    auto appended = file_.append(line, samples);
    if (appended.failure) return appended.failure;
    history_.add(line);
    if (!appended.warning.empty()) progress_.say("warning: " + appended.warning);
    if (!tensorboard_) return std::nullopt;
    std::vector<report::Scalar> scalars;
    for (const auto& [name, value] : line)
        if (name != "step")
            scalars.push_back({report::tensorboard_tag(name), number_in(line, name)});
    if (const auto failure = tensorboard_->add(static_cast<int64_t>(number_in(line, "step")),
                                               seconds_since_1970(), scalars)) {
        progress_.say(
            format_text("warning: {}; nothing more is written for TensorBoard in this attempt, and "
                        "metrics.jsonl has all of it",
                        failure->message));
        tensorboard_.reset();
    }
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
    return comm::first_failure(world_, world_.is_root() ? file_.write_kept() : std::nullopt);
}

}  // namespace ringshard::train

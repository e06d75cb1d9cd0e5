#include "ringshard/train/metrics.hpp"

#include <sys/resource.h>

#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/attempts.hpp"

namespace ringshard::train {

using nlohmann::ordered_json;

void MetricsWindow::add(const StepNumbers& numbers) { steps_.push_back(numbers); }

StepNumbers MetricsWindow::take() {
    StepNumbers line = steps_.back();
    const auto count = static_cast<double>(steps_.size());
    line.loss = line.entropy = line.accuracy = line.seconds = 0;
    line.step_tokens = 0;
    for (const StepNumbers& step : steps_) {
        line.loss += step.loss / count;
        line.entropy += step.entropy / count;
        line.accuracy += step.accuracy / count;
        line.seconds += step.seconds;
        line.step_tokens += step.step_tokens;
    }
    steps_.clear();
    return line;
}

MetricsFile::MetricsFile(std::filesystem::path output_dir, int64_t attempt)
    : file_(output_dir / "metrics.jsonl"), output_dir_(std::move(output_dir)), attempt_(attempt) {}

namespace {

// Lines without an attempt are not ours: they stay.
bool is_void(const ordered_json& line, const checkpoint::Attempts& attempts) {
    if (!line.is_object()) return false;
    const ordered_json attempt = line.value("attempt", ordered_json());
    const ordered_json step = line.value("step", ordered_json());
    return attempt.is_number_integer() && step.is_number_integer() &&
           attempts.is_void(attempt.get<int64_t>(), step.get<int64_t>());
}

}  // namespace

std::optional<Failure> MetricsFile::clean() const {
    const auto content = read_file(file_);
    if (!content) return std::nullopt;
    const checkpoint::Attempts attempts(output_dir_);
    std::string kept;
    for (const std::string& line : split(*content, '\n')) {
        const ordered_json read = ordered_json::parse(line, nullptr, false);
        if (!read.is_discarded() && !is_void(read, attempts)) kept += line + "\n";
    }
    if (kept == *content) return std::nullopt;
    return write_file_atomically(file_, kept);
}

namespace {

int64_t peak_resident_bytes() {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

std::optional<Failure> MetricsFile::append(const StepNumbers& numbers,
                                           double seconds_per_step) const {
    if (auto failure = checkpoint::check_newest(output_dir_, attempt_)) return failure;
    const ordered_json line{
        {"step", numbers.step},
        {"loss", numbers.loss},
        {"grad_norm", numbers.grad_norm},
        {"learning_rate", numbers.learning_rate},
        {"entropy", numbers.entropy},
        {"num_tokens", numbers.num_tokens},
        {"mean_token_accuracy", numbers.accuracy},
        {"epoch", numbers.epoch},
        {"step_time_s", seconds_per_step},
        {"tokens_per_second", static_cast<double>(numbers.step_tokens) / numbers.seconds},
        {"peak_memory_bytes", peak_resident_bytes()},
        {"attempt", attempt_}};
    return append_line(file_, line.dump());
}

namespace {

std::string with_thousands(double value) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(1);
    if (value >= 1e6)
        out << value / 1e6 << 'M';
    else if (value >= 1e3)
        out << value / 1e3 << 'k';
    else
        out << value;
    return out.str();
}

std::string hours_minutes_seconds(double seconds) {
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    std::ostringstream out;
    out << whole / 3600 << ':' << std::setfill('0') << std::setw(2) << whole / 60 % 60 << ':'
        << std::setw(2) << whole % 60;
    return out.str();
}

}  // namespace

std::string progress_line(const StepNumbers& numbers, int64_t num_steps, double seconds_per_step) {
    std::ostringstream out;
    out << "step " << numbers.step << '/' << num_steps << ' ' << std::fixed << std::setprecision(1)
        << 100.0 * static_cast<double>(numbers.step) / static_cast<double>(num_steps) << "% loss "
        << std::setprecision(4) << numbers.loss << " gnorm " << std::setprecision(3)
        << numbers.grad_norm << " lr " << std::defaultfloat << numbers.learning_rate << " tok/s "
        << with_thousands(static_cast<double>(numbers.step_tokens) / numbers.seconds) << " eta "
        << hours_minutes_seconds(seconds_per_step * static_cast<double>(num_steps - numbers.step));
    return out.str();
}

}  // namespace ringshard::train

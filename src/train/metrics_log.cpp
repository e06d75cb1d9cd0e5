#include "metrics_log.hpp"

#include "ringshard/base/wall_clock.hpp"

namespace ringshard::train {

MetricsLog::MetricsLog(checkpoint::Claim claim, const std::filesystem::path& folder,
                       const std::optional<checkpoint::RunSums>& before, Say say)
    : file_(std::move(claim), folder), history_(folder), before_(before), say_(std::move(say)) {}

std::optional<Failure> MetricsLog::read_lines(const std::filesystem::path& state,
                                              const std::function<void(const MetricsLine&)>& show) {
    if (!state.empty()) {
        const auto warning = file_.restore(state);
        if (!warning) return warning.failure();
        if (!warning.value().empty()) say_("warning: " + warning.value());
    }
    return file_.clean([&](const MetricsLine& line) {
        history_.add(line);
        show(line);
    });
}

void MetricsLog::add(const StepNumbers& numbers) {
    window_.add(numbers);
    totals_.add(numbers);
}

std::optional<StepWindow::Summary> MetricsLog::take_steps() {
    if (window_.is_empty()) return std::nullopt;
    return window_.take();
}

MetricsLine MetricsLog::line_of(const StepWindow::Summary& steps, const Usage& usage) const {
    MetricsLine line = step_line(steps, usage);
    line.emplace_back("total_flos", totals_.all_operations());
    return line;
}

MetricsLine MetricsLog::end_line(int64_t step, double epoch) const {
    return totals_.end_line(step, epoch);
}

std::optional<Failure> MetricsLog::record(MetricsLine& line,
                                          const std::vector<TextSample>& samples) {
    line.emplace_back("time", seconds_since_1970());
    auto appended = file_.append(line, samples);
    if (appended.failure) return appended.failure;
    history_.add(line);
    if (!appended.warning.empty()) say_("warning: " + appended.warning);
    return std::nullopt;
}

LogHistory::View MetricsLog::view(double epoch, int64_t num_tokens) const {
    LogHistory::View history = history_.view();
    history.epoch = epoch;
    history.num_tokens = num_tokens;
    history.total_flos = totals_.all_operations();
    return history;
}

}  // namespace ringshard::train

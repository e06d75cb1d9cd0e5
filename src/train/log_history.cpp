#include "log_history.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ringshard/config/metric_names.hpp"

namespace ringshard::train {

namespace {

bool is_logged_by_trl(const std::string& name, bool ends_run) {
    static constexpr std::array names{"step",
                                      "epoch",
                                      "loss",
                                      "grad_norm",
                                      "learning_rate",
                                      "entropy",
                                      "num_tokens",
                                      "train_loss",
                                      "mean_token_accuracy",
                                      "train_runtime",
                                      "train_samples_per_second",
                                      "train_steps_per_second"};
    if (name == "total_flos") return ends_run;
    const auto of_methods = config::all_evaluation_metrics();
    return name.starts_with("eval_") || std::ranges::find(names, name) != names.end() ||
           std::ranges::find(of_methods, name) != of_methods.end();
}

}  // namespace

// Names in alphabetic order, as transformers writes them. Values that are not finite are left out.
std::string print_entry(const MetricsLine& line) {
    if (!std::isnan(number_in(line, "save_step"))) return {};
    const bool ends_run = !std::isnan(number_in(line, "train_runtime"));
    nlohmann::json entry = nlohmann::json::object();
    for (const auto& [name, value] : line)
        if (is_logged_by_trl(name, ends_run) && std::isfinite(number_in(line, name)))
            std::visit([&](auto number) { entry[name] = number; }, value);
    return entry.empty() ? "" : entry.dump();
}

// A text that the disk does not take stays in memory, and goes there with a later line.
void LogHistory::empty_into_file() {
    constexpr size_t at_once = size_t{16} << 10;
    if (last_.rest.size() < at_once) return;
    if (!file_) {
        const std::filesystem::path name = folder_ / ("log_history" + work_mark());
        auto opened = File::open(name, O_RDWR | O_CREAT | O_TRUNC);
        if (!opened) return;
        std::error_code ignored;
        std::filesystem::remove(name, ignored);
        file_ = std::make_shared<File>(std::move(opened).value());
    }
    if (file_->write_at(std::as_bytes(std::span(last_.rest)), last_.bytes)) return;
    last_.bytes += std::ssize(last_.rest);
    last_.rest.clear();
}

void LogHistory::add_to_sums(const MetricsLine& line) {
    sums_.operations = last_.total_flos;
    const double loss = number_in(line, "loss");
    const double tokens_per_second = number_in(line, "tokens_per_second");
    if (std::isnan(loss) && std::isnan(tokens_per_second)) return;  // no line of steps
    const auto step = static_cast<int64_t>(number_in(line, "step"));
    const double skipped = number_in(line, "skipped_steps");
    const int64_t taken =
        step - last_step_ - (std::isnan(skipped) ? 0 : static_cast<int64_t>(skipped));
    last_step_ = step;
    if (std::isnan(loss) || taken <= 0) return;
    sums_.loss += loss * static_cast<double>(taken);
    sums_.num_losses += taken;
}

void LogHistory::add(const MetricsLine& line) {
    const auto last_value = [&](const char* name, auto& kept) {
        if (const double value = number_in(line, name); std::isfinite(value))
            kept = static_cast<std::remove_reference_t<decltype(kept)>>(value);
    };
    last_value("epoch", last_.epoch);
    last_value("num_tokens", last_.num_tokens);
    last_value("total_flos", last_.total_flos);
    add_to_sums(line);
    const std::string entry = print_entry(line);
    if (entry.empty()) return;
    if (!std::isnan(number_in(line, "train_runtime")))
        ends_.push_back(static_cast<int64_t>(number_in(line, "step")));
    if (!last_.is_empty()) last_.rest += ',';
    newest_.push_back(last_.bytes + std::ssize(last_.rest));
    if (newest_.size() > max_in_checkpoint) newest_.pop_front();
    last_.newest = newest_.front();
    last_.rest += "\n    " + entry;
    empty_into_file();
}

bool LogHistory::has_end_at(int64_t num_steps) const {
    return std::ranges::find(ends_, num_steps) != ends_.end();
}

LogHistory::View LogHistory::view() const {
    View now = last_;
    now.file = file_;
    return now;
}

std::optional<Failure> LogHistory::View::write_to(File& into, int64_t& offset,
                                                  int64_t begin) const {
    constexpr int64_t at_once = int64_t{1} << 20;
    std::vector<std::byte> piece(static_cast<size_t>(std::min(at_once, bytes)));
    for (int64_t done = begin; done < bytes;) {
        const auto part =
            std::span(piece).first(static_cast<size_t>(std::min(at_once, bytes - done)));
        if (auto failure = file->read_at(part, done)) return failure;
        if (auto failure = into.write_at(part, offset)) return failure;
        done += std::ssize(part);
        offset += std::ssize(part);
    }
    const auto last =
        std::string_view(rest).substr(static_cast<size_t>(std::max<int64_t>(0, begin - bytes)));
    if (auto failure = into.write_at(std::as_bytes(std::span(last)), offset)) return failure;
    offset += std::ssize(last);
    return std::nullopt;
}

}  // namespace ringshard::train

#include "log_history.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

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
    return name.starts_with("eval_") || std::ranges::find(names, name) != names.end();
}

// Names in alphabetic order, as transformers writes them. Values that are not finite are left out.
std::string print_entry(const MetricsLine& line, bool ends_run) {
    nlohmann::json entry = nlohmann::json::object();
    for (const auto& [name, value] : line)
        if (is_logged_by_trl(name, ends_run) && std::isfinite(number_in(line, name)))
            std::visit([&](auto number) { entry[name] = number; }, value);
    return entry.empty() ? "" : entry.dump();
}

}  // namespace

void LogHistory::add(const MetricsLine& line) {
    constexpr size_t block_bytes = size_t{64} << 10;
    const auto last_value = [&](const char* name, auto& kept) {
        if (const double value = number_in(line, name); std::isfinite(value))
            kept = static_cast<std::remove_reference_t<decltype(kept)>>(value);
    };
    last_value("epoch", last_.epoch);
    last_value("num_tokens", last_.num_tokens);
    last_value("total_flos", last_.total_flos);
    if (!std::isnan(number_in(line, "save_step"))) return;
    const bool ends_run = !std::isnan(number_in(line, "train_runtime"));
    if (ends_run) ends_.push_back(static_cast<int64_t>(number_in(line, "step")));
    const std::string entry = print_entry(line, ends_run);
    if (entry.empty()) return;
    open_ += is_empty_ ? "\n    " : ",\n    ";
    open_ += entry;
    is_empty_ = false;
    if (open_.size() < block_bytes) return;
    last_.blocks.push_back(std::make_shared<const std::string>(open_));
    open_.clear();
}

bool LogHistory::has_end_at(int64_t num_steps) const {
    return std::ranges::find(ends_, num_steps) != ends_.end();
}

LogHistory::View LogHistory::view() const {
    View now = last_;
    if (!open_.empty()) now.blocks.push_back(std::make_shared<const std::string>(open_));
    return now;
}

}  // namespace ringshard::train

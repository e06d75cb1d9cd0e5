#include "spikes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "ringshard/base/text.hpp"

namespace ringshard::train {

namespace {

// Of at least one number; the upper one of two middle ones.
double median_of(std::vector<double> numbers) {
    const auto middle = numbers.begin() + std::ssize(numbers) / 2;
    std::ranges::nth_element(numbers, middle);
    return *middle;
}

double median_deviation(const std::deque<double>& numbers, double median) {
    std::vector<double> deviations;
    for (const double number : numbers) deviations.push_back(std::abs(number - median));
    return median_of(std::move(deviations));
}

double rounded(double number) { return std::round(number * 1e4) / 1e4; }

}  // namespace

std::string Spikes::judge(const StepNumbers& numbers) {
    if (numbers.is_skipped()) return "the step is skipped";
    std::vector<std::string> reasons;
    if (losses_.size() >= fewest) {
        const double norm = median_of({norms_.begin(), norms_.end()});
        if (numbers.grad_norm > norm_factor * norm)
            reasons.push_back(format_text("norm of the gradient {}, median of {} steps before {}",
                                          rounded(numbers.grad_norm), norms_.size(),
                                          rounded(norm)));
        const double loss = median_of({losses_.begin(), losses_.end()});
        const double above = numbers.loss - loss;
        if (above > loss_deviations * median_deviation(losses_, loss) && above > loss_share * loss)
            reasons.push_back(format_text("loss {}, median of {} steps before {}",
                                          rounded(numbers.loss), losses_.size(), rounded(loss)));
    }
    losses_.push_back(numbers.loss);
    norms_.push_back(numbers.grad_norm);
    if (losses_.size() > window) {
        losses_.pop_front();
        norms_.pop_front();
    }
    return join(reasons, "; ");
}

std::string Spikes::to_text() const {
    std::vector<std::string> numbers;
    for (size_t i = 0; i < losses_.size(); ++i)
        for (const double number : {losses_[i], norms_[i]}) numbers.push_back(shortest(number));
    return join(numbers, " ");
}

bool Spikes::load(const std::string& text) {
    losses_.clear();
    norms_.clear();
    std::deque<double> losses;
    std::deque<double> norms;
    const char* const end = text.data() + text.size();
    for (const char* next = text.data(); next != end;) {
        if (*next == ' ') ++next;
        double number = 0;
        const auto [behind, error] = std::from_chars(next, end, number);
        if (error != std::errc() || !std::isfinite(number)) return false;
        (losses.size() == norms.size() ? losses : norms).push_back(number);
        next = behind;
    }
    if (losses.size() != norms.size() || losses.size() > window) return false;
    losses_ = std::move(losses);
    norms_ = std::move(norms);
    return true;
}

}  // namespace ringshard::train

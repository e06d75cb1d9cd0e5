#include "rank_times.hpp"

#include <algorithm>

namespace ringshard::train {

Spread spread_of(const std::vector<RankTimes>& ranks, double RankTimes::*kind) {
    std::vector<double> times;
    for (const RankTimes& rank : ranks) times.push_back(rank.*kind);
    if (times.empty()) return {};
    const auto slowest = std::ranges::max_element(times) - times.begin();
    std::ranges::sort(times);
    return {times.front(), times[(times.size() - 1) / 2], times.back(), slowest};
}

std::vector<SlowRanks::Found> SlowRanks::look(const std::vector<RankTimes>& ranks) {
    constexpr double slow = 1.25;          // times the median
    constexpr double worth_a_word = 1e-3;  // seconds of a step
    constexpr int64_t window = 50;         // steps
    constexpr double nearly_always = 0.9;  // of them
    records_.resize(ranks.size());
    const double median = spread_of(ranks, &RankTimes::compute).median;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
        const double compute = ranks[rank].compute;
        if (compute < slow * median || compute < median + worth_a_word) continue;
        records_[rank].slow_steps += 1;
        records_[rank].sum_of_ratios += compute / median;
    }
    if (++steps_ < window) return {};
    std::vector<Found> found;
    for (size_t rank = 0; rank < records_.size(); ++rank) {
        const auto& [slow_steps, sum_of_ratios] = records_[rank];
        const bool is_slow = static_cast<double>(slow_steps) >= nearly_always * window;
        const auto number = static_cast<int64_t>(rank);
        if (is_slow && told_.insert(number).second)
            found.push_back({number, sum_of_ratios / static_cast<double>(slow_steps)});
    }
    records_.assign(ranks.size(), {});
    steps_ = 0;
    return found;
}

}  // namespace ringshard::train

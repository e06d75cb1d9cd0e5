#include "slow_ranks.hpp"

#include <cmath>

#include "log.hpp"
#include "rank_times.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::train {

std::optional<comm::AgreedFailure> SlowRanks::after_step(int64_t, const StepNumbers& numbers) {
    if (world_.is_root()) look(numbers.ranks);
    return std::nullopt;
}

void SlowRanks::look(const std::vector<RankTimes>& ranks) {
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
    if (++steps_ < window) return;
    for (size_t rank = 0; rank < records_.size(); ++rank) {
        const auto& [slow_steps, sum_of_ratios] = records_[rank];
        const bool is_slow = static_cast<double>(slow_steps) >= nearly_always * window;
        if (is_slow && told_.insert(rank).second)
            report(rank, sum_of_ratios / static_cast<double>(slow_steps));
    }
    records_.assign(ranks.size(), {});
    steps_ = 0;
}

void SlowRanks::report(size_t rank, double times_median) {
    log_.say(
        format_text("warning: rank {} on {} is slow: step after step it computes {} times as long "
                    "as ranks do in the median, and all wait for it",
                    rank, hosts_[rank], std::round(100 * times_median) / 100));
}

}  // namespace ringshard::train

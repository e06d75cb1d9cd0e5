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

}  // namespace ringshard::train

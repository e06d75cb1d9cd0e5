#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// One kind of time over all ranks.
struct Spread {
    double shortest = 0;
    double median = 0;  // of an even number, the lower one
    double longest = 0;
    int64_t slowest_rank = 0;
};
Spread spread_of(const std::vector<RankTimes>& ranks, double RankTimes::*kind);

}  // namespace ringshard::train

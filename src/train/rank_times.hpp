#pragma once

#include <cstdint>
#include <set>
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

// Finds ranks that are slow in nearly all steps: all others wait for such a rank, so its host, or
// the work of its neighbours, is worth a look.
class SlowRanks {
public:
    struct Found {
        int64_t rank = 0;
        double times_median = 0;  // how long it computes, in the mean
    };
    // Returns the slow ranks that this step reveals; each is found once.
    std::vector<Found> look(const std::vector<RankTimes>& ranks);

private:
    struct Record {
        int64_t slow_steps = 0;
        double sum_of_ratios = 0;
    };
    std::vector<Record> records_;  // by rank, of the present window
    int64_t steps_ = 0;            // of it
    std::set<int64_t> told_;
};

}  // namespace ringshard::train

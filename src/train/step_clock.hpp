#pragma once

#include <span>
#include <vector>

#include "ringshard/base/timer.hpp"
#include "ringshard/comm/journal.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// Where the time of this rank goes in a step. What comes after the sums, in which the times of all
// ranks travel, is `rest`: it counts with the next step.
class StepClock {
public:
    StepClock(const comm::Journal& journal, const RankTimes& rest_before)
        : journal_(journal), rest_before_(rest_before), waited_before_(journal.seconds_waited()) {}

    double seconds() const { return timer_.seconds(); }
    void has_rows() { data_wait_ = seconds(); }
    // Numbers to add up over the ranks: a place for each, of which this one fills its own.
    std::vector<double> to_sum(int rank, int size) {
        sum_at_ = so_far();
        std::vector<double> times(kinds * static_cast<size_t>(size));
        double* const mine = &times[kinds * static_cast<size_t>(rank)];
        mine[0] = rest_before_.compute + sum_at_.compute;
        mine[1] = rest_before_.comm_wait + sum_at_.comm_wait;
        mine[2] = sum_at_.data_wait;
        return times;
    }
    RankTimes rest() const {
        const RankTimes whole = so_far();
        return {whole.compute - sum_at_.compute, whole.comm_wait - sum_at_.comm_wait, 0};
    }
    // The times of all ranks, from the sums of what they added.
    static std::vector<RankTimes> read(std::span<const double> sums) {
        std::vector<RankTimes> ranks;
        for (size_t at = 0; at < sums.size(); at += kinds)
            ranks.push_back({sums[at], sums[at + 1], sums[at + 2]});
        return ranks;
    }

private:
    static constexpr size_t kinds = 3;

    RankTimes so_far() const {
        const double comm_wait = journal_.seconds_waited() - waited_before_;
        return {seconds() - comm_wait - data_wait_, comm_wait, data_wait_};
    }

    Timer timer_;
    const comm::Journal& journal_;
    RankTimes rest_before_;
    double waited_before_;
    double data_wait_ = 0;
    RankTimes sum_at_;
};

}  // namespace ringshard::train

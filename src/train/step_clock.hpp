#pragma once

#include "ringshard/base/timer.hpp"
#include "ringshard/comm/flight_recorder.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// Measures the times of this rank in a step. The time after the sums, which carry the times of all
// ranks, is `rest`: it counts with the next step.
class StepClock {
public:
    StepClock(const comm::FlightRecorder& flight_recorder, const RankTimes& rest_before)
        : flight_recorder_(flight_recorder),
          rest_before_(rest_before),
          waited_before_(flight_recorder.seconds_waited()) {}

    double seconds() const { return timer_.seconds(); }
    void has_rows() { data_wait_ = seconds(); }
    // Returns the times of this rank, with `rest_before`, which are to be added up. The time after
    // it is `rest`.
    RankTimes begin_sum() {
        static_cast<void>(flight_recorder_.groups());  // GPUs update their waits on this call
        sum_at_ = so_far();
        return {rest_before_.compute + sum_at_.compute, rest_before_.comm_wait + sum_at_.comm_wait,
                sum_at_.data_wait};
    }
    RankTimes rest() const {
        const RankTimes whole = so_far();
        return {whole.compute - sum_at_.compute, whole.comm_wait - sum_at_.comm_wait, 0};
    }

private:
    RankTimes so_far() const {
        const double comm_wait = flight_recorder_.seconds_waited() - waited_before_;
        return {seconds() - comm_wait - data_wait_, comm_wait, data_wait_};
    }

    Timer timer_;
    const comm::FlightRecorder& flight_recorder_;
    RankTimes rest_before_;
    double waited_before_;
    double data_wait_ = 0;
    RankTimes sum_at_;
};

}  // namespace ringshard::train

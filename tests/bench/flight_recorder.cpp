// bench_flight_recorder: what it costs to record an operation with other ranks, from begin to end.
// One line of JSON.
#include <iostream>
#include <memory>

#include "ringshard/base/timer.hpp"
#include "ringshard/comm/flight_recorder.hpp"

using namespace ringshard;

int main() {
    const auto flight_recorder = std::make_shared<comm::FlightRecorder>();
    const auto log = flight_recorder->open_log("zero", 0);
    constexpr int operations = 1'000'000;
    const Timer timer;
    for (int i = 0; i < operations; ++i)
        const comm::GroupLog::Operation noted(*log, "all-gather", 4096);
    std::cout << "{\"seconds_per_operation\": " << timer.seconds() / operations << "}\n";
}

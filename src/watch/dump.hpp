#pragma once

#include <filesystem>
#include <string>

#include "ringshard/comm/flight_recorder.hpp"

namespace ringshard::watch {

// Installs a signal handler that lets the calling thread, which trains, write its backtrace.
class StackSampler {
public:
    StackSampler();
    ~StackSampler();
    StackSampler(const StackSampler&) = delete;
    StackSampler& operator=(const StackSampler&) = delete;

    // Appends the thread's backtrace to the file; returns false if it does not answer within a
    // second.
    bool append_backtrace(const std::filesystem::path& file) const;

private:
    pthread_t thread_;
};

// Writes the state of a stalled process: `headline`, the flight recorder, the states of its
// threads, and the backtrace of the thread that trains.
void write_dump(const std::filesystem::path& file, const std::string& headline,
                const comm::FlightRecorder& flight_recorder, const StackSampler& stack_sampler);

}  // namespace ringshard::watch

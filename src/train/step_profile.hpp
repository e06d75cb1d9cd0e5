#pragma once

#include <c10/core/Device.h>

#include <filesystem>

#include "ringshard/config/logging_settings.hpp"

namespace ringshard::train {

// The work of the processor and the GPU of this rank during some steps, as a file that
// chrome://tracing and Perfetto show: LibTorch's own profiler, with the phases of a pass as spans.
class StepProfile {
public:
    StepProfile(const config::LoggingSettings& settings, std::filesystem::path file,
                c10::Device device);
    ~StepProfile();  // writes the profile so far
    StepProfile(const StepProfile&) = delete;
    StepProfile& operator=(const StepProfile&) = delete;

    void before_step(int64_t step);
    void after_step(int64_t step);

private:
    void write();

    config::StepRange steps_;
    std::filesystem::path file_;
    c10::Device device_;
    bool is_running_ = false;
};

}  // namespace ringshard::train

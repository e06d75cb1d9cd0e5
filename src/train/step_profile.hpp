#pragma once

#include <c10/core/Device.h>

#include <filesystem>

#include "component.hpp"
#include "ringshard/config/logging_settings.hpp"

namespace ringshard::train {

// The work of the processor and the GPU of this rank during some steps, as a file that
// chrome://tracing and Perfetto show: LibTorch's own profiler, with the phases of a pass as spans.
class StepProfile : public Component {
public:
    StepProfile(const config::LoggingSettings& settings, std::filesystem::path file,
                c10::Device device);
    ~StepProfile() override;  // writes the profile so far

    void before_step(int64_t step) override;
    std::optional<comm::AgreedFailure> after_step(int64_t step,
                                                  const StepNumbers& numbers) override;

private:
    void write();

    config::StepRange steps_;
    std::filesystem::path file_;
    c10::Device device_;
    bool is_running_ = false;
};

}  // namespace ringshard::train

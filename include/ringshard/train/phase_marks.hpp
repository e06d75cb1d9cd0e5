#pragma once

#include <ATen/record_function.h>

#include <optional>
#include <string>

#include "ringshard/device/device.hpp"

namespace ringshard::train {

// The phases of a pass, as spans for profilers: LibTorch's (profile_steps), and NVIDIA's, which
// read NVTX ranges. A span ends where the next one begins.
class PhaseMarks {
public:
    explicit PhaseMarks(c10::Device device) : device_(device) {}
    void begins(const std::string& what) {
        span_.emplace(at::RecordScope::USER_SCOPE);
        if (span_->isActive()) span_->before(what);
        device::mark_range(device_, what);
    }

private:
    c10::Device device_;
    std::optional<at::RecordFunction> span_;
};

}  // namespace ringshard::train

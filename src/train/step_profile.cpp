#include "step_profile.hpp"

#include <torch/csrc/autograd/profiler_kineto.h>

namespace ringshard::train {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

StepProfile::StepProfile(const config::LoggingSettings& settings, std::filesystem::path file,
                         c10::Device device)
    : steps_(settings.steps_to_profile().value_or(config::StepRange{0, -1})),
      file_(std::move(file)),
      device_(device) {}

StepProfile::~StepProfile() { write(); }

void StepProfile::before_step(int64_t step) {
    if (step != steps_.first) return;
    const torch::profiler::impl::ProfilerConfig options(
        torch::profiler::impl::ProfilerState::KINETO);
    std::set<ActivityType> activities{ActivityType::CPU};
    if (device_.is_cuda()) activities.insert(ActivityType::CUDA);
    profiler::prepareProfiler(options, activities);
    profiler::enableProfiler(options, activities,
                             {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
    is_running_ = true;
}

std::optional<comm::AgreedFailure> StepProfile::after_step(int64_t step, const StepNumbers&) {
    if (step == steps_.last) write();
    return std::nullopt;
}

void StepProfile::write() {
    if (!is_running_) return;
    is_running_ = false;
    profiler::disableProfiler()->save(file_);
}

}  // namespace ringshard::train

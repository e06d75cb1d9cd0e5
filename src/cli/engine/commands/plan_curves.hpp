#pragma once

#include "ringshard/base/environment.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/plan/step_plan.hpp"
#include "ringshard/run/plan_args.hpp"

namespace ringshard::cli {

// The plans of these settings on growing worlds, up to 1,024 ranks: files for `trainer plot
// --plan`. weak.jsonl, where every rank keeps its rows; strong.jsonl, where all ranks together do;
// longest.jsonl, where the ring becomes as long as it can and rows with it.
std::optional<Failure> write_curves(const std::filesystem::path& folder,
                                    const config::Settings& settings, const model::ModelSpec& spec,
                                    const plan::Device& device, const run::PlanArgs& args,
                                    const Environment& environment, int64_t num_threads,
                                    const ops::Gemms& gemms);

}  // namespace ringshard::cli

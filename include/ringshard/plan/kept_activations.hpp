#pragma once

#include "ringshard/config/activation_policies.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/plan/step_plan.hpp"

namespace ringshard::plan {

// The activations that blocks keep, and the plan of a step with them.
struct KeptActivations {
    config::ActivationPolicies policies;
    StepPlan plan;
    int num_plans = 0;  // that were made to find it
};

// What a choice by the plan uses of a device's memory. A tenth stays free, for memory that no plan
// counts: pieces that fit nothing, buffers of libraries, an evaluation.
inline constexpr double usable_share = 0.9;

// Chooses the policies that keep as much as fits into the device's memory; ignores the policies of
// the question. All blocks keep the most of which all have room; of these as many of the first
// blocks as possible keep all, and then, within the remaining memory, as many of the next as
// possible the policies between. Where all blocks have no room for their input alone, they keep
// that. The same numbers give the same answer.
KeptActivations keep_what_fits(const Question& question, const Device& device, int num_threads);

}  // namespace ringshard::plan

#pragma once

#include "ringshard/model/model_spec.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/placement.hpp"
#include "ringshard/run/plan_answers.hpp"
#include "ringshard/run/run_data.hpp"

namespace ringshard::run {

// Bytes of the rank that has least: of its GPU, or its share of `free_host_memory`. Collective over
// the world.
double least_memory(const CommandContext& context, const Placement& placement,
                    int64_t free_host_memory);

// A rank's device, with the memory of the rank that has least. Collective over the world.
plan::Device smallest_device(const CommandContext& context, const Placement& placement,
                             int64_t free_host_memory);

// Returns the plan of a step with the longest rows of the data.
Answer answer_of_data(const Planner& planner, const config::Settings& settings,
                      const Placement& placement, const RunData& data);

// The settings with policies that rank 0 has chosen in place of `activation_policy auto`, which is
// the default on GPUs, by the plan of the longest rows: as much is kept as there is room for on the
// rank that has least. Others come back as they are. gemms: those of the run, whose workspace
// counts. Collective over the world.
comm::Agreed<config::Settings> choose_policies(const CommandContext& context,
                                               const Placement& placement,
                                               const model::ModelSpec& spec, const RunData& data,
                                               const ops::Gemms& gemms, int64_t free_host_memory);

// Reports the memory of a step with the longest rows, before anything large is allocated; fails
// where that is more than there is, with what would help. Returns the bytes of a rank's activations
// that are offloaded. `free_host_memory`: bytes. Collective over the world.
comm::Agreed<int64_t> check_plan(const CommandContext& context, const Placement& placement,
                                 const model::ModelSpec& spec, const RunData& data,
                                 const ops::Gemms& gemms, int64_t free_host_memory);

}  // namespace ringshard::run

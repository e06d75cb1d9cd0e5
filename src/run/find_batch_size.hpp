#pragma once

#include "check_plan.hpp"

namespace ringshard::run {

// With auto_find_batch_size: the settings with the largest micro-batch whose plan fits, at the rows
// of a step that are given; a run that resumes keeps the micro-batch of its run.json if it fits.
// Other settings come back as they are. Collective over the world.
comm::Agreed<config::Settings> find_batch_size(const CommandContext& context,
                                               const Placement& placement,
                                               const model::ModelSpec& spec, const RunData& data,
                                               const ops::Gemms& gemms, int64_t free_host_memory);

}  // namespace ringshard::run

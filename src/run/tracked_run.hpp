#pragma once

#include "ringshard/report/tracker.hpp"
#include "ringshard/run/command_context.hpp"

namespace ringshard::run {

// Returns the run as trackers know it, on rank 0; on other ranks, and where report_to names no
// tracker, an empty one. All attempts of a run have the id in output_dir/tracked-run, which this
// writes; a start with resume_from_checkpoint never begins another run. `step`: from which this
// attempt resumes.
report::TrackedRun tracked_run(const CommandContext& context, int64_t step);

}  // namespace ringshard::run

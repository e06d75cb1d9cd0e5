#pragma once

#include "ringshard/base/environment.hpp"
#include "ringshard/cli/invocation.hpp"
#include "ringshard/config/resolve.hpp"

namespace ringshard::cli {

// Resolves `trainer fork RUN [--step N] --setting value ...`: the settings of a checkpoint, with
// those of the command line over them. The run begins from that checkpoint, and a restart goes on
// from the newest of its own. Reads files, so one rank calls it.
config::Resolution resolve_fork(const config::OptionTable& table, const Invocation& invocation,
                                const Environment& environment);

}  // namespace ringshard::cli

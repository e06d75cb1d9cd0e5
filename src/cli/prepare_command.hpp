#pragma once

#include "ringshard/cli/engine.hpp"
#include "ringshard/data/prepare.hpp"

namespace ringshard::cli {

// trainer prepare: the rows that training will see, made ahead of the job. Collective over the
// world.
int run_prepare(const CommandContext& context);

// Where and with what data is prepared.
data::PrepareResources prepare_resources(const CommandContext& context, int64_t threads,
                                         const HubCache& hub);

}  // namespace ringshard::cli

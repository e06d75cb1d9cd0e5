#pragma once

#include <memory>

#include "ringshard/base/faults.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/placement.hpp"
#include "ringshard/watch/watchdog.hpp"

namespace ringshard::run {

// The ranks of a job in their places: the first stage of each command that computes on all ranks.
struct PlacedJob {
    // Chooses and binds devices, reports them, and makes the mesh. Collective over the world.
    static comm::Agreed<std::unique_ptr<PlacedJob>> place(const CommandContext& context);

    // Collective over the world.
    PlacedJob(const CommandContext& context, Faults its_faults,
              std::unique_ptr<watch::Watchdog> its_watchdog, Placement its_placement);

    Faults faults;
    std::unique_ptr<watch::Watchdog> watchdog;
    Placement placement;
    mesh::Mesh mesh;
};

}  // namespace ringshard::run

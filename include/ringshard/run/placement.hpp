#pragma once

#include <string>
#include <vector>

#include "ringshard/comm/agree.hpp"
#include "ringshard/device/device.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/mesh/mesh_shape.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/mesh_picture.hpp"

namespace ringshard::run {

// Host, device and threads of this rank, and the mesh.
struct Placement {
    device::Host host;
    std::string memory;  // where memory of this rank lies, for people
    c10::Device device;
    mesh::MeshShape shape;
    std::vector<RankPlace> places;  // of every rank, on rank 0; empty elsewhere
    int64_t ranks_on_host;
    int64_t num_threads;
    bool shares_gpus;  // several ranks on one, as a setting allows
};

// Chooses and binds the device of every rank, the threads and the mesh; all ranks succeed, or all
// get the same failure. Collective over the world.
comm::Agreed<Placement> place_ranks(const CommandContext& context);

// Returns why a run on GPUs cannot have these settings; nothing if it can.
std::optional<Failure> check_for_gpus(const config::Settings& settings);

// Prints notes on the settings, the picture of the mesh and the size of a step: from rank 0, to
// stderr.
void print_start(const CommandContext& context, const Placement& placement);

}  // namespace ringshard::run

#pragma once

#include <string>
#include <vector>

#include "ringshard/mesh/mesh.hpp"

namespace ringshard::cli {

// Exchanges numbers whose sums are exact through every communicator of the mesh and looks at the
// results; returns what was wrong on this rank. Collective over the world.
std::vector<std::string> check_communicators(const mesh::Mesh& mesh);

struct Bandwidth {
    double milliseconds;
    double bus_gib_per_s;  // bytes that each rank sends and receives, per second
};

// A large all-reduce over the world, the best of a few. Collective over the world.
Bandwidth measure_all_reduce(const mesh::Mesh& mesh, int64_t bytes);

}  // namespace ringshard::cli

#pragma once

#include <string>
#include <vector>

#include "ringshard/mesh/mesh_shape.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::run {

struct RankPlace {
    std::string host;
    std::string device;
    std::string cores;  // that it may run on: "0-3"
};

// A line per rank: where it is and which coordinates it has. Long worlds are shown from both ends.
std::string draw_mesh(const mesh::MeshShape& shape, const std::vector<RankPlace>& places);

// Describes a step on the mesh: effective batch, tokens, sharded state.
std::string describe_step(const mesh::MeshShape& shape, const config::Config& config);

}  // namespace ringshard::run

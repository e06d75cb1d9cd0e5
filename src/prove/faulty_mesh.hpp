#pragma once

#include <memory>

#include "ringshard/base/faults.hpp"
#include "ringshard/mesh/mesh.hpp"

namespace ringshard::prove {

// Returns a mesh whose communicators spoil operations of `mesh` as the faults say:
// RINGSHARD_FAULT=prove:zero:3:drop@1 is the third operation of rank 1 with its zero group. The
// groups are replicate, ring, ulysses, zero, all, experts, experts zero and experts world; a rank
// sends zeros (drop), its numbers doubled (twice) or half as much again (scale), the numbers that
// it sent before (stale), the parts of its numbers in another order (swap), or a sum over the ranks
// is that of one rank (alone). Whole numbers have a point by themselves: "prove:all counts" are
// those by which routers are balanced. Null if no fault aims at a group. Both arguments must
// outlive it.
std::unique_ptr<mesh::Mesh> faulty_mesh(const mesh::Mesh& mesh, Faults& faults);

}  // namespace ringshard::prove

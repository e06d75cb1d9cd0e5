#include "ringshard/mesh/mesh.hpp"

namespace ringshard::mesh {

Mesh::Mesh(const comm::Group& world, const MeshShape& shape, at::Device device,
           const comm::CommunicatorOptions& options)
    : shape_(shape), coordinates_(coordinates_of(world.rank(), shape)), device_(device) {
    RINGSHARD_CHECK(shape.world() == world.size(), "{} for a world of {}", to_text(shape),
                    world.size());
    // The ranks of a group differ along its axes and agree on all others: so the rank with zeros
    // along the axes of the group names it.
    // A split is collective over the world: groups of one rank do without.
    const auto along = [&](const char* name, int64_t size, Coordinates at_zero) {
        if (size == 1) return comm::make_self_communicator(device);
        return comm::make_communicator(world.split(rank_of(at_zero, shape_), name), device,
                                       options);
    };
    replicate_ = along("replicate", shape.replicate,
                       {0, coordinates_.shard, coordinates_.ring, coordinates_.ulysses});
    ring_ = along("ring", shape.ring,
                  {coordinates_.replicate, coordinates_.shard, 0, coordinates_.ulysses});
    ulysses_ = along("ulysses", shape.ulysses,
                     {coordinates_.replicate, coordinates_.shard, coordinates_.ring, 0});
    zero_ = along("zero", shape.zero(), {coordinates_.replicate, 0, 0, 0});
    world_ = along("tensors of all", shape.world(), {0, 0, 0, 0});

    // Groups of experts are consecutive ranks; the ranks in the same place of them hold the same.
    const auto join = [&](const char* name, int64_t size, int64_t color) {
        if (size == 1) return comm::make_self_communicator(device);
        return comm::make_communicator(world.split(color, name), device, options);
    };
    experts_ = join("experts", shape.experts, world.rank() / shape.experts);
    if (shape.experts == 1) return;
    expert_zero_ = join("expert zero", shape.zero() / shape.experts,
                        coordinates_.replicate * shape.experts + world.rank() % shape.experts);
    expert_world_ =
        join("expert world", shape.world() / shape.experts, world.rank() % shape.experts);
}

Mesh::Mesh(const MeshShape& shape, int64_t rank, at::Device device, const MakeCommunicator& make)
    : shape_(shape),
      coordinates_(coordinates_of(rank, shape)),
      device_(device),
      replicate_(make("replicate", coordinates_.replicate, shape.replicate)),
      ring_(make("ring", coordinates_.ring, shape.ring)),
      ulysses_(make("ulysses", coordinates_.ulysses, shape.ulysses)),
      zero_(make("zero", rank % shape.zero(), shape.zero())),
      world_(make("tensors of all", rank, shape.world())),
      experts_(make("experts", rank % shape.experts, shape.experts)) {
    if (shape.experts == 1) return;
    expert_zero_ =
        make("expert zero", rank % shape.zero() / shape.experts, shape.zero() / shape.experts);
    expert_world_ = make("expert world", rank / shape.experts, shape.world() / shape.experts);
}

}  // namespace ringshard::mesh

#include "ringshard/mesh/mesh.hpp"

namespace ringshard::mesh {

Mesh::Mesh(const comm::Group& world, const MeshShape& shape, at::Device device,
           const comm::CommunicatorOptions& options)
    : shape_(shape), at_(coordinates_of(world.rank(), shape)), device_(device) {
    RINGSHARD_CHECK(shape.world() == world.size(), to_text(shape), " for a world of ",
                    world.size());
    // The ranks of a group differ along its axes and agree on all others: so the rank with zeros
    // along the axes of the group names it.
    // A split is collective over the world: groups of one rank do without.
    const auto along = [&](const char* name, int64_t size, Coordinates at_zero) {
        if (size == 1) return comm::make_self_communicator(device);
        return comm::make_communicator(world.split(rank_of(at_zero, shape_), name), device,
                                       options);
    };
    replicate_ = along("replicate", shape.replicate, {0, at_.shard, at_.ring, at_.ulysses});
    ring_ = along("ring", shape.ring, {at_.replicate, at_.shard, 0, at_.ulysses});
    ulysses_ = along("ulysses", shape.ulysses, {at_.replicate, at_.shard, at_.ring, 0});
    zero_ = along("zero", shape.zero(), {at_.replicate, 0, 0, 0});
    world_ = along("tensors of all", shape.world(), {0, 0, 0, 0});
}

Mesh::Mesh(const MeshShape& shape, int64_t rank, at::Device device, const MakeCommunicator& make)
    : shape_(shape),
      at_(coordinates_of(rank, shape)),
      device_(device),
      replicate_(make("replicate", at_.replicate, shape.replicate)),
      ring_(make("ring", at_.ring, shape.ring)),
      ulysses_(make("ulysses", at_.ulysses, shape.ulysses)),
      zero_(make("zero", rank % shape.zero(), shape.zero())),
      world_(make("tensors of all", rank, shape.world())) {}

}  // namespace ringshard::mesh

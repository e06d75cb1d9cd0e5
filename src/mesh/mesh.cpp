#include "ringshard/mesh/mesh.hpp"

namespace ringshard::mesh {

Mesh::Mesh(const comm::Group& world, const MeshShape& shape, at::Device device,
           const comm::CommunicatorOptions& options)
    : shape_(shape), at_(coordinates_of(world.rank(), shape)), device_(device) {
    RINGSHARD_CHECK(shape.world() == world.size(), to_text(shape), " for a world of ",
                    world.size());
    // The ranks of a group differ along its axes and agree on all others: so the rank with zeros
    // along the axes of the group names it.
    const auto along = [&](const char* name, Coordinates at_zero) {
        return comm::make_communicator(world.split(rank_of(at_zero, shape_), name), device,
                                       options);
    };
    replicate_ = along("replicate", {0, at_.shard, at_.ring, at_.ulysses});
    shard_ = along("shard", {at_.replicate, 0, at_.ring, at_.ulysses});
    ring_ = along("ring", {at_.replicate, at_.shard, 0, at_.ulysses});
    ulysses_ = along("ulysses", {at_.replicate, at_.shard, at_.ring, 0});
    data_ = along("data", {0, 0, at_.ring, at_.ulysses});
    sequence_ = along("sequence", {at_.replicate, at_.shard, 0, 0});
    zero_ = along("zero", {at_.replicate, 0, 0, 0});
    world_ = along("tensors of all", {0, 0, 0, 0});
}

Mesh::Mesh(const MeshShape& shape, int64_t rank, at::Device device, const MakeCommunicator& make)
    : shape_(shape),
      at_(coordinates_of(rank, shape)),
      device_(device),
      replicate_(make("replicate", at_.replicate, shape.replicate)),
      shard_(make("shard", at_.shard, shape.shard)),
      ring_(make("ring", at_.ring, shape.ring)),
      ulysses_(make("ulysses", at_.ulysses, shape.ulysses)),
      data_(make("data", at_.replicate * shape.shard + at_.shard, shape.data())),
      sequence_(make("sequence", at_.ring * shape.ulysses + at_.ulysses, shape.sequence())),
      zero_(make("zero", rank % shape.zero(), shape.zero())),
      world_(make("tensors of all", rank, shape.world())) {}

}  // namespace ringshard::mesh

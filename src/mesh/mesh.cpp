#include "ringshard/mesh/mesh.hpp"

namespace ringshard::mesh {

Mesh::Mesh(const comm::Group& world, const MeshShape& shape, at::Device device,
           std::chrono::microseconds test_delay)
    : shape_(shape), at_(coordinates_of(world.rank(), shape)), device_(device) {
    RINGSHARD_CHECK(shape.world() == world.size(), to_text(shape), " for a world of ",
                    world.size());
    // The ranks of a group differ along its axes and agree on all others: so the rank with zeros
    // along the axes of the group names it.
    const auto along = [&](Coordinates at_zero) {
        return comm::make_communicator(world.split(rank_of(at_zero, shape_)), device, test_delay);
    };
    replicate_ = along({0, at_.shard, at_.ring, at_.ulysses});
    shard_ = along({at_.replicate, 0, at_.ring, at_.ulysses});
    ring_ = along({at_.replicate, at_.shard, 0, at_.ulysses});
    ulysses_ = along({at_.replicate, at_.shard, at_.ring, 0});
    data_ = along({0, 0, at_.ring, at_.ulysses});
    sequence_ = along({at_.replicate, at_.shard, 0, 0});
    zero_ = along({at_.replicate, 0, 0, 0});
    world_ = along({0, 0, 0, 0});
}

double Mesh::seconds_waited() const {
    double seconds = 0;
    for (const auto* axis :
         {&replicate_, &shard_, &ring_, &ulysses_, &data_, &sequence_, &zero_, &world_})
        seconds += (*axis)->seconds_waited();
    return seconds;
}

}  // namespace ringshard::mesh

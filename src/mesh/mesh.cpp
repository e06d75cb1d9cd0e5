#include "ringshard/mesh/mesh.hpp"

#include <array>

namespace ringshard::mesh {

namespace {

// Where a rank stands among the groups of a kind: the number of its group, which no other group of
// the kind has, its rank in it, and the size.
struct Place {
    int64_t group;
    int64_t rank;
    int64_t size;
};

// The ranks that differ along these axes alone: the one with zeros along them names the group.
Place along(const MeshShape& shape, int64_t rank, std::initializer_list<Axis> varied) {
    Coordinates first = coordinates_of(rank, shape);
    Place place{0, 0, 1};
    for (const Axis& axis : varied) {
        place.rank = place.rank * (shape.*axis.size) + (first.*axis.place);
        place.size *= shape.*axis.size;
        first.*axis.place = 0;
    }
    place.group = rank_of(first, shape);
    return place;
}

}  // namespace

// The communicators of a mesh, in the order in which they are made. The ranks that hold the
// sections of a unit are consecutive; those of equal sections hold the same.
struct MeshGroup {
    const char* name;
    std::unique_ptr<comm::Communicator> Mesh::*communicator;
    Place (*place)(const MeshShape& shape, int64_t rank);
    bool is_of_sections = false;  // exists only where there are several

    static const std::array<MeshGroup, 8>& all() {
        using Shape = const MeshShape&;
        constexpr auto& shard = axes[1];
        static const std::array<MeshGroup, 8> groups{{
            {"replicate", &Mesh::replicate_,
             [](Shape s, int64_t r) { return along(s, r, {axes[0]}); }},
            {"ring", &Mesh::ring_, [](Shape s, int64_t r) { return along(s, r, {axes[2]}); }},
            {"ulysses", &Mesh::ulysses_, [](Shape s, int64_t r) { return along(s, r, {axes[3]}); }},
            {"zero", &Mesh::zero_,
             [](Shape s, int64_t r) {
                 return along(s, r, {shard, axes[2], axes[3]});
             }},
            {"tensors of all", &Mesh::world_,
             [](Shape s, int64_t r) {
                 return along(s, r, {axes[0], shard, axes[2], axes[3]});
             }},
            {"experts", &Mesh::sections_,
             [](Shape s, int64_t r) {
                 return Place{r / s.sections, r % s.sections, s.sections};
             }},
            {"experts zero", &Mesh::section_zero_,
             [](Shape s, int64_t r) {
                 return Place{r / s.zero() * s.sections + r % s.sections, r % s.zero() / s.sections,
                              s.zero() / s.sections};
             },
             true},
            {"experts world", &Mesh::section_world_,
             [](Shape s, int64_t r) {
                 return Place{r % s.sections, r / s.sections, s.world() / s.sections};
             },
             true},
        }};
        return groups;
    }
};

Mesh::Mesh(const comm::Group& world, const MeshShape& shape, at::Device device,
           const comm::CommunicatorOptions& options)
    : shape_(shape), coordinates_(coordinates_of(world.rank(), shape)), device_(device) {
    RINGSHARD_CHECK(shape.world() == world.size(), "{} for a world of {}", to_text(shape),
                    world.size());
    make_groups(
        [&](const char* name, int64_t group, int64_t, int64_t size) {
            // A split is collective over the world: groups of one rank do without.
            if (size == 1) return comm::make_self_communicator(device);
            return comm::make_communicator(world.split(group, name), device, options);
        },
        world.rank());
}

Mesh::Mesh(const MeshShape& shape, int64_t rank, at::Device device, const MakeCommunicator& make)
    : shape_(shape), coordinates_(coordinates_of(rank, shape)), device_(device) {
    make_groups([&](const char* name, int64_t, int64_t rank_in_group,
                    int64_t size) { return make(name, rank_in_group, size); },
                rank);
}

void Mesh::make_groups(const MakeGroup& make, int64_t rank) {
    for (const MeshGroup& group : MeshGroup::all()) {
        if (group.is_of_sections && shape_.sections == 1) continue;
        const Place place = group.place(shape_, rank);
        this->*group.communicator = make(group.name, place.group, place.rank, place.size);
    }
}

}  // namespace ringshard::mesh

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ringshard/comm/communicator.hpp"
#include "ringshard/mesh/mesh_shape.hpp"

namespace ringshard::mesh {

// The mesh of ranks, seen from one rank: its coordinates, and a communicator for every group that
// exchanges tensors. Groups of size 1 have one too, so no caller compares sizes.
class Mesh {
public:
    // Collective over the world.
    Mesh(const comm::Group& world, const MeshShape& shape, at::Device device,
         const comm::CommunicatorOptions& options = {});

    // A mesh as `rank` of a planned world would see it, with communicators of the caller's: for
    // planning a step without that world.
    using MakeCommunicator = std::function<std::unique_ptr<comm::Communicator>(
        const char* group, int64_t rank, int64_t size)>;
    Mesh(const MeshShape& shape, int64_t rank, at::Device device, const MakeCommunicator& make);

    const MeshShape& shape() const { return shape_; }
    const Coordinates& coordinates() const { return coordinates_; }
    at::Device device() const { return device_; }

    // Ranks with different data ranks have different batches (replicate x shard); the sequence
    // ranks of one batch have different tokens of it (ring x ulysses).
    int64_t data_rank() const { return coordinates_.replicate * shape_.shard + coordinates_.shard; }
    int64_t sequence_rank() const {
        return coordinates_.ring * shape_.ulysses + coordinates_.ulysses;
    }

    comm::Communicator& replicate() const { return *replicate_; }
    comm::Communicator& ring() const { return *ring_; }
    comm::Communicator& ulysses() const { return *ulysses_; }
    // shard x ring x ulysses: one copy of the model
    comm::Communicator& zero() const { return *zero_; }
    comm::Communicator& world() const { return *world_; }

    // The ranks that hold the sections of one copy of a unit, where units have sections.
    comm::Communicator& sections() const { return *sections_; }
    // The ranks of the zero group, and of the world, that hold the same section as this one.
    comm::Communicator& section_zero() const { return section_zero_ ? *section_zero_ : *zero_; }
    comm::Communicator& section_world() const { return section_world_ ? *section_world_ : *world_; }

private:
    friend struct MeshGroup;  // the table of the communicators
    using MakeGroup = std::function<std::unique_ptr<comm::Communicator>(
        const char* name, int64_t group, int64_t rank, int64_t size)>;
    void make_groups(const MakeGroup& make, int64_t rank);

    MeshShape shape_;
    Coordinates coordinates_;
    at::Device device_;
    std::unique_ptr<comm::Communicator> replicate_;
    std::unique_ptr<comm::Communicator> ring_;
    std::unique_ptr<comm::Communicator> ulysses_;
    std::unique_ptr<comm::Communicator> zero_;
    std::unique_ptr<comm::Communicator> world_;
    std::unique_ptr<comm::Communicator> sections_;
    // Null where there is one section: then all ranks hold the same.
    std::unique_ptr<comm::Communicator> section_zero_;
    std::unique_ptr<comm::Communicator> section_world_;
};

}  // namespace ringshard::mesh

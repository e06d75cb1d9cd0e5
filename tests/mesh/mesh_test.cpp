#include "ringshard/mesh/mesh.hpp"

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "mpi_test.hpp"

using namespace ringshard;

namespace {

// Which world ranks a communicator joins, found by asking them.
std::vector<int64_t> members(comm::Communicator& communicator) {
    at::Tensor all = at::zeros({communicator.size()}, at::kLong);
    communicator.all_gather(all, at::full({1}, test::world().rank(), at::kLong)).wait();
    return {all.data_ptr<int64_t>(), all.data_ptr<int64_t>() + all.numel()};
}

template <class Belongs>
std::vector<int64_t> expected(const mesh::MeshShape& shape, Belongs belongs) {
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < shape.world(); ++rank)
        if (belongs(coordinates_of(rank, shape))) ranks.push_back(rank);
    return ranks;
}

std::vector<mesh::MeshShape> shapes_of(int64_t world) {
    if (world == 1) return {{1, 1, 1, 1}};
    if (world == 2) return {{2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}};
    if (world == 4) return {{2, 2, 1, 1}, {1, 2, 2, 1}, {1, 1, 2, 2}, {2, 1, 1, 2}, {1, 4, 1, 1}};
    return {{2, 2, 2, 1}, {1, 2, 2, 2}, {2, 1, 2, 2}, {1, 1, 4, 2}, {1, 4, 1, 2}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_group_joins_the_ranks_it_should) {
    for (const mesh::MeshShape& shape : shapes_of(test::world().size())) {
        const mesh::Mesh mesh(test::world(), shape, at::kCPU);
        const mesh::Coordinates at = mesh.coordinates();
        BOOST_TEST(rank_of(at, shape) == test::world().rank());
        using C = mesh::Coordinates;
        BOOST_TEST(members(mesh.replicate()) == expected(shape, [&](C c) {
                       return c.shard == at.shard && c.ring == at.ring && c.ulysses == at.ulysses;
                   }));
        BOOST_TEST(members(mesh.ring()) == expected(shape, [&](C c) {
                       return c.replicate == at.replicate && c.shard == at.shard &&
                              c.ulysses == at.ulysses;
                   }));
        BOOST_TEST(members(mesh.ulysses()) == expected(shape, [&](C c) {
                       return c.replicate == at.replicate && c.shard == at.shard &&
                              c.ring == at.ring;
                   }));
        BOOST_TEST(members(mesh.zero()) ==
                   expected(shape, [&](C c) { return c.replicate == at.replicate; }));
        BOOST_TEST(members(mesh.world()) == expected(shape, [](C) { return true; }));
        BOOST_TEST(mesh.ring().rank() == at.ring);
        BOOST_TEST(mesh.ulysses().rank() == at.ulysses);
        BOOST_TEST(mesh.replicate().rank() == at.replicate);
        BOOST_TEST(mesh.data_rank() == at.replicate * shape.shard + at.shard);
        BOOST_TEST(mesh.sequence_rank() == at.ring * shape.ulysses + at.ulysses);
    }
}

// Consecutive ranks share the experts of a copy of the model; those in the same place hold the
// same.
BOOST_AUTO_TEST_CASE(groups_of_experts_are_consecutive_ranks) {
    const int64_t world = test::world().size();
    const int64_t rank = test::world().rank();
    for (mesh::MeshShape shape : shapes_of(world))
        for (const int64_t experts : mesh::section_sizes(shape, world)) {
            shape.sections = experts;
            const mesh::Mesh mesh(test::world(), shape, at::kCPU);
            BOOST_TEST(members(mesh.sections()) == expected(shape, [&](mesh::Coordinates c) {
                           return rank_of(c, shape) / experts == rank / experts;
                       }));
            BOOST_TEST(members(mesh.section_zero()) == expected(shape, [&](mesh::Coordinates c) {
                           return c.replicate == mesh.coordinates().replicate &&
                                  rank_of(c, shape) % experts == rank % experts;
                       }));
            BOOST_TEST(members(mesh.section_world()) == expected(shape, [&](mesh::Coordinates c) {
                           return rank_of(c, shape) % experts == rank % experts;
                       }));
        }
}

namespace {

// Groups that this process has made so far, by their pages in the flight recorder.
size_t num_groups() { return test::world().flight_recorder().groups().size(); }

}  // namespace

// Each group is a collective over the world and a place in the tables of MPI and NCCL.
BOOST_AUTO_TEST_CASE(only_groups_of_several_ranks_that_exchange_tensors_are_made) {
    const size_t before = num_groups();
    const auto made = [&](const mesh::MeshShape& shape) {
        const mesh::Mesh mesh(test::world(), shape, at::kCPU);
        return num_groups() - before;
    };
    const int64_t world = test::world().size();
    if (world == 1) {
        BOOST_TEST(made({1, 1, 1, 1}) == 0U);
        return;
    }
    BOOST_TEST(made({1, world, 1, 1}) == 2U);  // zero and world
    BOOST_TEST(made({world, 1, 1, 1}) == 2U);  // replicate and world
    BOOST_TEST(made({1, 1, world, 1}) == 3U);  // ring, zero and world
    if (world == 8) BOOST_TEST(made({2, 2, 2, 1}) == 4U);
    if (world == 8) BOOST_TEST(made({1, 8, 1, 1, 2}) == 5U);  // and three of experts
    if (world == 8) BOOST_TEST(made({1, 8, 1, 1, 8}) == 3U);  // each expert is on one rank
    BOOST_TEST(num_groups() == before);
}

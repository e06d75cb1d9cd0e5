#include "ringshard/comm/group.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "mpi_test.hpp"
#include "ringshard/comm/agree.hpp"

using namespace ringshard;

BOOST_AUTO_TEST_CASE(numbers_are_agreed_on) {
    const comm::Group& world = test::world();
    const int64_t size = world.size();
    BOOST_TEST(world.sum(int64_t{world.rank()}) == size * (size - 1) / 2);
    BOOST_TEST(world.minimum(world.rank() + 3) == 3);
    BOOST_TEST(world.maximum(world.rank()) == size - 1);
    const auto largest = world.maximum(std::vector<int64_t>{world.rank(), -world.rank(), 7});
    BOOST_TEST(largest == (std::vector<int64_t>{size - 1, 0, 7}));
    BOOST_TEST(world.all(true));
    BOOST_TEST(world.all(world.rank() != size - 1) == false);
    const auto sums = world.sum(std::vector<double>{1.0, 0.5 * world.rank()});
    BOOST_TEST(sums[0] == static_cast<double>(size));
    BOOST_TEST(sums[1] == 0.25 * static_cast<double>(size * (size - 1)));
}

// Products get all multiprocessors of a GPU back when the newest operation of any group is awaited:
// operations that began before are under way while others are waited for.
BOOST_AUTO_TEST_CASE(the_newest_operation_frees_multiprocessors) {
    const comm::Group part = test::world().split(0, "part");
    comm::OperationsBesideProducts& of_world = test::world().flight_recorder().beside_products();
    comm::OperationsBesideProducts& of_part = part.flight_recorder().beside_products();
    const int64_t reduction = of_world.begin();
    const int64_t gather = of_part.begin();
    BOOST_TEST(!of_world.frees_processors(reduction));
    BOOST_TEST(of_part.frees_processors(gather));
    const int64_t next = of_world.begin();
    BOOST_TEST(!of_part.frees_processors(gather));
    BOOST_TEST(of_world.frees_processors(next));
}

// Sums that round differently in every order of additions.
BOOST_AUTO_TEST_CASE(a_sum_has_the_same_bits_on_every_rank) {
    const comm::Group& world = test::world();
    std::vector<double> values;
    for (int i = 0; i < 100; ++i) values.push_back(std::sin(1.0 + i + 10.0 * world.rank()));
    const auto sums = world.sum(values);
    for (const double sum : sums) {
        const auto bits = std::bit_cast<int64_t>(sum);
        BOOST_TEST(world.minimum(bits) == world.maximum(bits));
    }
}

BOOST_AUTO_TEST_CASE(texts_of_any_length_travel) {
    const comm::Group& world = test::world();
    const std::string mine(static_cast<size_t>(1000 * world.rank()),
                           static_cast<char>('a' + world.rank()));
    const auto all = world.gather(mine);
    BOOST_TEST(all.size() == static_cast<size_t>(world.size()));
    for (size_t rank = 0; rank < all.size(); ++rank)
        BOOST_TEST(all[rank] == std::string(1000 * rank, static_cast<char>('a' + rank)));
    BOOST_TEST(world.gather_to_root(mine).size() == (world.is_root() ? all.size() : 0U));
    BOOST_TEST(world.broadcast(mine, world.size() - 1) == all.back());
    BOOST_TEST(world.scatter(world.is_root() ? all : std::vector<std::string>()) == mine);
    BOOST_TEST(world.broadcast("") == "");
}

BOOST_AUTO_TEST_CASE(a_group_is_split_by_color) {
    const comm::Group& world = test::world();
    const comm::Group half = world.split(world.rank() % 2, "half");
    BOOST_TEST(half.rank() == world.rank() / 2);
    BOOST_TEST(half.size() == (world.size() + 1 - world.rank() % 2) / 2);
    const comm::Group host = world.split_by_host();
    BOOST_TEST(host.size() == world.size());  // the test runs on one host
}

BOOST_AUTO_TEST_CASE(the_first_failure_is_everybodys) {
    const comm::Group& world = test::world();
    BOOST_TEST(!comm::first_failure(world, std::nullopt));
    std::optional<Failure> mine;
    if (world.rank() == world.size() - 1) mine = Failure{ExitCode::io, "disk full"};
    const auto agreed = comm::first_failure(world, mine);
    BOOST_TEST_REQUIRE(agreed.has_value());
    BOOST_TEST(number(agreed->code()) == 74);
    BOOST_TEST(agreed->message().ends_with("disk full"));
}

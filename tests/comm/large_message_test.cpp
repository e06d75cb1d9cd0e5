#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "mpi_test.hpp"
#include "ringshard/comm/communicator.hpp"

using namespace ringshard;

// MPI counts bytes in an int: messages beyond 2^31 are cut and put together again.
BOOST_AUTO_TEST_CASE(a_message_above_two_gibibytes_arrives_whole) {
    const auto communicator = comm::make_communicator(test::world().split(0, "test"), at::kCPU);
    constexpr int64_t bytes = (int64_t{1} << 31) + 12345;
    const std::vector<int64_t> places{
        0, 1, (1 << 30) - 1, 1 << 30, (int64_t{1} << 31) - 1, int64_t{1} << 31, bytes - 1};
    const int64_t rank = communicator->rank();
    at::Tensor sent = at::empty({bytes}, at::kByte);
    at::Tensor received = at::empty({bytes}, at::kByte);
    auto* out = sent.data_ptr<uint8_t>();
    for (size_t i = 0; i < places.size(); ++i)
        out[places[i]] = static_cast<uint8_t>(10 * rank + static_cast<int64_t>(i) + 1);
    communicator->shift({{sent, received}}).wait();
    const int64_t previous = (rank + communicator->size() - 1) % communicator->size();
    const auto* in = received.data_ptr<uint8_t>();
    for (size_t i = 0; i < places.size(); ++i)
        BOOST_TEST(in[places[i]] == 10 * previous + static_cast<int64_t>(i) + 1);
}

BOOST_AUTO_TEST_CASE(texts_above_two_gibibytes_are_gathered_and_broadcast) {
    const comm::Group& world = test::world();
    constexpr size_t length = (size_t{1} << 31) + 12345;
    const int last = world.size() - 1;
    std::string mine = world.rank() == last ? std::string(length, 'a') : "short";
    mine.back() = 'z';
    {
        const auto all = world.gather_to_root(mine);
        if (world.is_root()) {
            BOOST_TEST(all.front() == "shorz");
            BOOST_TEST(all.back().size() == length);
            BOOST_TEST(all.back().find_first_not_of('a') == length - 1);
        }
    }
    if (world.rank() != last) mine.clear();
    const std::string sent = world.broadcast(mine, last);
    BOOST_TEST(sent.size() == length);
    BOOST_TEST(sent.back() == 'z');
}

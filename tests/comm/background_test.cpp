#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "mpi_test.hpp"
#include "ringshard/base/timer.hpp"
#include "tried_communicator.hpp"

using namespace ringshard;

// A collective that rank 0 enters late makes progress on the other ranks while they do something
// else, and on rank 0 while it computes: nobody needs to call wait() for the messages to travel.
// (By way of the host, what has arrived comes to the device when it is waited for.)
BOOST_AUTO_TEST_CASE(messages_travel_while_the_rank_computes) {
    const auto communicator = test::make_tried_communicator(test::world().split(0, "test"));
    const int64_t size = communicator->size();
    const auto mine = static_cast<float>(communicator->rank());
    const float theirs = static_cast<float>((communicator->rank() + 1) % size) + 1;
    constexpr int64_t part = 1 << 20;
    at::Tensor first = at::zeros({part * size});
    at::Tensor second = at::full({part}, mine);
    comm::Pending gather = communicator->all_gather(first, at::full({part}, mine + 1));
    comm::Pending reduce = communicator->all_reduce(second);
    // Not a wait on the operation, but on its effect.
    const float* last =
        first.data_ptr<float>() + ((communicator->rank() + 1) % size + 1) * part - 1;
    double busy_work = 0;
    const Timer timer;
    while (*static_cast<const volatile float*>(last) != theirs && timer.seconds() < 60)
        busy_work += at::rand({1000}).sum().item<double>();
    BOOST_TEST(*last == theirs);
    BOOST_TEST(busy_work >= 0);
    gather.wait();
    reduce.wait();
    BOOST_TEST(second.equal(at::full({part}, static_cast<double>(size * (size - 1) / 2))));
}

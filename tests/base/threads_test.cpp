#include <ATen/Parallel.h>

#include <boost/test/unit_test.hpp>
#include <set>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_CASE(two_threads_really_work) {
    at::set_num_threads(2);
    std::vector<std::thread::id> workers(2);
    at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            workers[static_cast<size_t>(i)] = std::this_thread::get_id();
    });
    BOOST_TEST(std::set(workers.begin(), workers.end()).size() == 2U);
}

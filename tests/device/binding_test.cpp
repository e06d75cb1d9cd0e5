// Cores and memory of the ranks of a host. The host is described, as in hwloc(7).
#include "ringshard/device/binding.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "topology.hpp"

using namespace ringshard::device;

namespace {

// Two sockets of four cores with two hardware threads each.
constexpr const char* two_sockets = "pack:2 [numa] core:4 pu:2";

Binding bound_to(const Topology& topology, const char* threads) {
    Bitmap bitmap = make_bitmap();
    hwloc_bitmap_list_sscanf(bitmap.get(), threads);
    return topology.binding(bitmap);
}

}  // namespace

BOOST_AUTO_TEST_CASE(cores_and_numa_nodes_of_a_rank) {
    const Topology host(two_sockets);
    const Binding first = bound_to(host, "0,1,2,5");
    BOOST_TEST(first.cores == "0-2");
    BOOST_TEST(first.numa_nodes == "0");
    BOOST_TEST(first.allowed_cores == "0-7");
    BOOST_TEST(first.num_numa_nodes == 2);
    const Binding over_both = bound_to(host, "7-8");
    BOOST_TEST(over_both.cores == "3-4");
    BOOST_TEST(over_both.numa_nodes == "0-1");
}

BOOST_AUTO_TEST_CASE(ranks_that_share_cores_while_others_idle_are_found) {
    const Topology host(two_sockets);
    const auto describe = [&](std::vector<const char*> ranks) {
        std::vector<Binding> bindings;
        for (const char* threads : ranks) bindings.push_back(bound_to(host, threads));
        return describe_shared_cores(bindings);
    };
    BOOST_TEST(describe({}).empty());
    BOOST_TEST(describe({"0-15", "0-15", "0-15"}).empty());              // not bound
    BOOST_TEST(describe({"0-1", "2-3", "8-9"}).empty());                 // bound to a core each
    BOOST_TEST(describe({"0-7", "0-7", "0-7", "8-15"}).empty());         // to sockets
    BOOST_TEST(describe({"0-3", "0-1", "2-5"}).empty());                 // found by trading cores
    BOOST_TEST(describe(std::vector<const char*>(12, "0-15")).empty());  // more ranks than cores
    BOOST_TEST(describe({"0-1", "0-1"}) ==
               "of 2 ranks only 1 has a core of its own: they are bound to the cores 0, and the "
               "cores 1-7 run no rank");
    // Two hardware threads of one core are no two cores.
    BOOST_TEST(describe({"0", "1", "2-3"}) ==
               "of 3 ranks only 2 have a core of their own: they are bound to the cores 0-1, and "
               "the cores 2-7 run no rank");
    BOOST_TEST(describe({"0-3", "0-3", "0-3", "8-9"}) ==
               "of 4 ranks only 3 have a core of their own: they are bound to the cores 0-1,4, and "
               "the cores 2-3,5-7 run no rank");
}

BOOST_AUTO_TEST_CASE(cores_that_the_job_may_not_use_do_not_idle) {
    const std::vector<Binding> ranks(3, {.cores = "2-3", .allowed_cores = "2-3"});
    BOOST_TEST(describe_shared_cores(ranks).empty());
}

// This process, on a host that is said to have a second NUMA node.
BOOST_AUTO_TEST_CASE(memory_lies_on_the_numa_node_of_the_cores) {
    Binding binding{.num_numa_nodes = 1, .numa_nodes = "0"};
    BOOST_TEST(bind_memory(binding) == "on the one NUMA node of the host");
    binding = {.num_numa_nodes = 2, .numa_nodes = "0-1"};
    BOOST_TEST(bind_memory(binding) == "near each thread: its cores are of NUMA nodes 0-1");
    const auto policy = [] {
        std::ifstream maps("/proc/self/numa_maps");
        std::string address;
        std::string found;
        maps >> address >> found;
        return found;
    };
    const Topology here;
    const Bitmap first = here.threads_of_process();
    hwloc_bitmap_singlify(first.get());
    BOOST_TEST_REQUIRE(hwloc_set_cpubind(here.handle(), first.get(), HWLOC_CPUBIND_THREAD) == 0);
    binding = here.binding(first);
    binding.num_numa_nodes = 2;
    BOOST_TEST_REQUIRE(policy() == "default");
    const std::string told = bind_memory(binding);
    const bool is_bound = told == "on NUMA node " + binding.numa_nodes +
                                      ", that of its cores, as far as there is any";
    const bool is_forbidden = told.find(": Operation not permitted") != std::string::npos;
    BOOST_TEST((is_bound || is_forbidden), told);
    BOOST_TEST(policy().starts_with("prefer") == is_bound);
    if (is_bound)
        BOOST_TEST(bind_memory(binding) ==
                   "as it was chosen before the start; the cores are of NUMA node " +
                       binding.numa_nodes);
}

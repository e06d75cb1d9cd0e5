#include "ringshard/device/device.hpp"
#include "ringshard/config/run_settings.hpp"

#include <boost/test/unit_test.hpp>

#include "ringshard/device/host.hpp"

using namespace ringshard;
using config::DeviceChoice;

namespace {

std::vector<device::Gpu> gpus(int count) {
    std::vector<device::Gpu> all;
    for (int i = 0; i < count; ++i)
        all.push_back({i, "GPU", "0000:0" + std::to_string(i), int64_t{80} << 30, "9.0"});
    return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_gpus_visible_or_one_per_task) {
    for (const int64_t local_rank : {0, 1, 3, 7}) {
        BOOST_TEST(
            device::choose_device(DeviceChoice::automatic, local_rank, gpus(8)).value().index() ==
            local_rank);
        BOOST_TEST(
            device::choose_device(DeviceChoice::automatic, local_rank, gpus(1)).value().index() ==
            0);
    }
}

BOOST_AUTO_TEST_CASE(without_gpus) {
    BOOST_TEST(device::choose_device(DeviceChoice::automatic, 0, {}).value().is_cpu());
    BOOST_TEST(device::choose_device(DeviceChoice::cpu, 0, gpus(4)).value().is_cpu());
    const auto refused = device::choose_device(DeviceChoice::cuda, 0, {});
    BOOST_TEST_REQUIRE(!refused);
    BOOST_TEST(number(refused.failure().code) == 78);
    BOOST_TEST(refused.failure().message.find("--device cpu") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(old_gpus_have_no_products_in_fp8) {
    std::vector<device::Gpu> two = gpus(2);
    two[1].capability = "8.0";
    BOOST_TEST(!device::check_fp8(c10::Device(c10::kCPU), two));
    BOOST_TEST(!device::check_fp8(c10::Device(c10::kCUDA, 0), two));
    const auto refused = device::check_fp8(c10::Device(c10::kCUDA, 1), two);
    BOOST_TEST_REQUIRE(refused.has_value());
    BOOST_TEST(number(refused->code) == 78);
    BOOST_TEST(refused->message.find("give bf16") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(all_ranks_compute_on_gpus_or_none) {
    const c10::Device cpu(c10::kCPU);
    BOOST_TEST(!device::check_same_kind(cpu, 0, 8));
    BOOST_TEST(!device::check_same_kind(c10::Device(c10::kCUDA, 0), 7, 8));
    const auto refused = device::check_same_kind(cpu, 7, 8);
    BOOST_TEST_REQUIRE(refused.has_value());
    BOOST_TEST(number(refused->code) == 78);
    BOOST_TEST(refused->message.find("7 of 8 ranks have one") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(two_ranks_on_one_gpu_are_found) {
    BOOST_TEST(!device::check_distinct({"", "", ""}));
    BOOST_TEST(!device::check_distinct({"a 0000:01", "a 0000:02", "b 0000:01"}));
    const auto shared = device::check_distinct({"a 0000:01", "b 0000:01", "a 0000:01"});
    BOOST_TEST_REQUIRE(shared.has_value());
    BOOST_TEST(number(shared->code) == 78);
    BOOST_TEST(shared->message.find("ranks 0 and 2") != std::string::npos);
    BOOST_TEST(shared->message.find("--allow_shared_gpu") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(threads_are_shared_among_neighbours) {
    device::Host host;
    host.num_threads = 16;
    host.num_usable_threads = 16;
    const Environment nothing;
    const Environment three(Environment::Variables{{"OMP_NUM_THREADS", "3"}});
    BOOST_TEST(device::choose_num_threads(std::nullopt, nothing, host, 1).value() == 16);
    BOOST_TEST(device::choose_num_threads(std::nullopt, nothing, host, 4).value() == 4);
    BOOST_TEST(device::choose_num_threads(std::nullopt, nothing, host, 32).value() == 1);
    host.num_usable_threads = 4;  // bound by the scheduler
    BOOST_TEST(device::choose_num_threads(std::nullopt, nothing, host, 4).value() == 4);
    BOOST_TEST(device::choose_num_threads(std::nullopt, three, host, 4).value() == 3);
    BOOST_TEST(device::choose_num_threads(2, three, host, 4).value() == 2);
}

BOOST_AUTO_TEST_CASE(more_threads_than_a_host_bears_are_refused) {
    device::Host host;
    host.num_threads = 16;
    BOOST_TEST(device::choose_num_threads(64, Environment(), host, 1).value() == 64);
    const auto many = device::choose_num_threads(int64_t{1} << 40, Environment(), host, 1);
    BOOST_TEST_REQUIRE(!many);
    BOOST_TEST(number(many.failure().code) == 78);
    BOOST_TEST(many.failure().message.find("num_threads = 1099511627776") == 0U);
}

BOOST_AUTO_TEST_CASE(the_host_is_described) {
    const device::Host host = device::describe_host();
    BOOST_TEST(!host.name.empty());
    BOOST_TEST(host.num_cores >= 1);
    BOOST_TEST(host.num_usable_threads >= 1);
    BOOST_TEST(host.memory_bytes > 0);
}

// Whatever the order in which models begin and end in a process: the list is that of the last one.
BOOST_AUTO_TEST_CASE(a_gpu_without_memory_lists_the_memory_of_the_model_that_is) {
    constexpr size_t gib = size_t{1} << 30;
    const auto told = [&] { return device::out_of_gpu_memory(2, gib, 80 * gib, gib / 2); };
    BOOST_TEST(number(told().code) == 78);
    BOOST_TEST(told().message.starts_with("GPU 2 has no room for another "));
    BOOST_TEST(told().message.find("The model was not complete") != std::string::npos);
    for (const std::string list : {"of the first model", "of the second model"}) {
        device::set_memory_report([list] { return list; });
        BOOST_TEST(told().message.ends_with(list));
        device::set_memory_report({});
        BOOST_TEST(told().message.find(list) == std::string::npos);
    }
}

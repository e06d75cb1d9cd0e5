#include "test_hooks.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/device/host.hpp"

namespace ringshard::run::test_hooks {

namespace {

// Returns nothing where the variable is not set, and 0 where it holds no whole number.
std::optional<int64_t> read(const Environment& environment, const char* name) {
    const auto text = environment.find(name);
    if (!text) return std::nullopt;
    return read_whole_number(*text).value_or(0);
}

}  // namespace

std::chrono::microseconds message_delay(const Environment& environment) {
    return std::chrono::microseconds(read(environment, "RINGSHARD_TEST_COMM_DELAY_US").value_or(0));
}

std::function<int64_t()> free_host_memory(const Environment& environment) {
    const auto bytes = read(environment, "RINGSHARD_TEST_FREE_MEMORY");
    if (!bytes) return device::free_host_memory;
    return [fixed = *bytes] { return fixed; };
}

int64_t device_memory(const Environment& environment) {
    const auto bytes = read(environment, "RINGSHARD_TEST_DEVICE_MEMORY");
    return bytes ? *bytes : device::free_host_memory();
}

std::optional<int64_t> ranks_per_node(const Environment& environment) {
    return read(environment, "RINGSHARD_TEST_RANKS_PER_NODE");
}

watch::Pace watch_pace(const Environment& environment) {
    watch::Pace pace;
    const auto shorten = [&](const char* name, double& seconds) {
        if (const auto number = read(environment, name)) seconds = static_cast<double>(*number);
    };
    shorten("RINGSHARD_TEST_SHORTEST_LIMIT_S", pace.shortest_limit);
    shorten("RINGSHARD_TEST_OTHER_LIMIT_S", pace.other_limit);
    shorten("RINGSHARD_TEST_ASK_EVERY_S", pace.between_checks);
    return pace;
}

}  // namespace ringshard::run::test_hooks

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "ringshard/base/environment.hpp"
#include "ringshard/watch/watchdog.hpp"

// Variables RINGSHARD_TEST_* with which tests change the environment of a run. Without them each
// function returns the value of a normal run.
namespace ringshard::run::test_hooks {

// RINGSHARD_TEST_COMM_DELAY_US delays messages: computation has to hide the delay.
std::chrono::microseconds message_delay(const Environment& environment);

// RINGSHARD_TEST_FREE_MEMORY overrides the free memory of the host, in bytes.
std::function<int64_t()> free_host_memory(const Environment& environment);

// RINGSHARD_TEST_DEVICE_MEMORY overrides the memory with which a plan is compared, in bytes.
int64_t device_memory(const Environment& environment);

// RINGSHARD_TEST_RANKS_PER_NODE divides the ranks of one host into nodes.
std::optional<int64_t> ranks_per_node(const Environment& environment);

// RINGSHARD_TEST_SHORTEST_LIMIT_S, RINGSHARD_TEST_OTHER_LIMIT_S and RINGSHARD_TEST_ASK_EVERY_S
// shorten the limits of the watchdog.
watch::Pace watch_pace(const Environment& environment);

}  // namespace ringshard::run::test_hooks

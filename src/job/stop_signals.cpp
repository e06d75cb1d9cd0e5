#include "ringshard/job/stop_signals.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

namespace ringshard::job {

namespace {

// State of the signal handler, which takes no arguments. All of it is lock-free, as a handler
// needs.
std::atomic<int> first_signal = 0;
std::array<std::atomic<int64_t>, 64> received_at{};  // milliseconds, by signal; 0: not yet

std::atomic<bool> announces_signals = false;

int64_t milliseconds_now() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// write() alone is safe in a handler.
void announce(int number) {
    constexpr std::string_view warned = "\nSIGUSR1: the run finishes this step, saves and ends\n";
    constexpr std::string_view asked =
        "\nasked to stop: the run finishes this step, saves and ends; the same signal again ends "
        "it "
        "at once, without a save\n";
    const std::string_view line = number == SIGUSR1 ? warned : asked;
    const int earlier = errno;
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
    errno = earlier;
}

void record(int number) {
    constexpr int64_t same_event = 1000;
    const int64_t now = milliseconds_now();
    int64_t earlier = 0;
    if (received_at[static_cast<size_t>(number)].compare_exchange_strong(earlier, now)) {
        int none = 0;
        const bool is_first = first_signal.compare_exchange_strong(none, number);
        if (is_first && announces_signals) announce(number);
    } else if (now - earlier > same_event) {
        std::signal(number, SIG_DFL);
        std::raise(number);  // delivered when this handler returns
    }
}

void take_over(int number) {
    struct sigaction action {};
    action.sa_handler = record;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
}

}  // namespace

void note_warnings() { take_over(SIGUSR1); }

void note_ends(bool announces) {
    announces_signals = announces;
    take_over(SIGTERM);
    take_over(SIGINT);
}

std::string noted_signal() {
    switch (first_signal) {
        case SIGUSR1: return "SIGUSR1";
        case SIGTERM: return "SIGTERM";
        case SIGINT: return "SIGINT";
        default: return {};
    }
}

}  // namespace ringshard::job

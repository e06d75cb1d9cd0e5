#include "ringshard/base/faults.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard {

namespace {

// The failure of a file operation, by the name of the fault.
std::optional<std::string> words_of_io(const std::string& action) {
    if (action == "eio") return std::strerror(EIO);
    if (action == "enospc") return std::strerror(ENOSPC);
    if (action == "short") return "the disk takes no more of it";
    return std::nullopt;
}

// The corruption of numbers, by the name of the fault.
Faults::Corruption corruption_of(std::string_view action) {
    using enum Faults::Corruption;
    constexpr std::array<std::pair<std::string_view, Faults::Corruption>, 8> named{
        {{"flip", flip},
         {"nan", nan},
         {"drop", drop},
         {"twice", twice},
         {"scale", scale},
         {"stale", stale},
         {"swap", swap},
         {"alone", alone}}};
    for (const auto& [name, corruption] : named)
        if (action == name) return corruption;
    return none;
}

bool is_known(const std::string& action) {
    for (const auto* name : {"kill", "throw", "segv", "stop", "spin", "read", "stall", "delay"})
        if (action == name) return true;
    return corruption_of(action) != Faults::Corruption::none || words_of_io(action).has_value();
}

}  // namespace

Expected<Faults> Faults::read(const Environment& environment, int rank) {
    Faults faults;
    const auto variable = environment.find("RINGSHARD_FAULT");
    if (!variable || variable->empty()) return faults;
    const Failure malformed{
        ExitCode::settings,
        format_text(
            "RINGSHARD_FAULT = {}: is written as point:nth:kill, :throw, :segv, :stop, "
            ":spin, :read, :stall, :delay, :flip, :nan, :drop, :twice, :scale, :stale, :swap, "
            ":alone, :eio, :enospc or :short, and @rank if one alone shall fail",
            *variable)};
    std::string rest = *variable;
    if (const size_t at = rest.find('@'); at != std::string::npos) {
        if (rest.substr(at + 1) != std::to_string(rank)) return faults;
        rest.resize(at);
    }
    const size_t last = rest.rfind(':');
    const size_t middle =
        last == std::string::npos || last == 0 ? std::string::npos : rest.rfind(':', last - 1);
    if (middle == std::string::npos) return malformed;
    const std::string times = rest.substr(middle + 1, last - middle - 1);
    const int64_t nth = times == "*" ? every : read_whole_number(times).value_or(0);
    const std::string action = rest.substr(last + 1);
    if ((nth < 1 && nth != every) || !is_known(action)) return malformed;
    faults.trigger_ = Trigger{rest.substr(0, middle), nth, action};
    faults.go_on_ = environment.find("RINGSHARD_TEST_GO_ON").value_or("");
    faults.longest_delay_ =
        read_whole_number(environment.find("RINGSHARD_TEST_DELAY_MS").value_or("0")).value_or(0);
    faults.random_.seed(static_cast<unsigned>(rank) + 1);
    return faults;
}

bool Faults::is_now(std::string_view point) {
    if (!trigger_ || trigger_->point != point) return false;
    return ++times_ == trigger_->nth || trigger_->nth == every;
}

namespace {

[[noreturn]] void spin() {
    for (volatile bool goes_on = true;;) static_cast<void>(goes_on);
}

[[noreturn]] void read_for_ever() {
    std::array<int, 2> pipe_ends{};
    char nothing = 0;
    while (pipe(pipe_ends.data()) == 0 && read(pipe_ends[0], &nothing, 1) != 0) continue;
    std::abort();
}

}  // namespace

void Faults::act() {
    if (trigger_->action == "throw")
        throw Error(ExitCode::internal, "RINGSHARD_FAULT asked for this");
    if (trigger_->action == "segv") std::raise(SIGSEGV);
    if (trigger_->action == "kill") std::raise(SIGKILL);
    if (trigger_->action == "spin") spin();
    if (trigger_->action == "read") read_for_ever();
    if (trigger_->action == "stop") {
        std::raise(SIGSTOP);
        return;
    }
    if (trigger_->action == "delay") {
        std::uniform_int_distribution<int64_t> delays(0, longest_delay_);
        std::this_thread::sleep_for(std::chrono::milliseconds(delays(random_)));
        return;
    }
    constexpr auto pause = std::chrono::milliseconds(20);
    if (!go_on_.empty()) std::ofstream(go_on_.string() + ".awaited").flush();
    while (!file_exists(go_on_)) std::this_thread::sleep_for(pause);
}

void Faults::reach(std::string_view point) {
    if (!is_now(point)) return;
    if (words_of_io(trigger_->action) || corruption_of(trigger_->action) != Corruption::none)
        throw Error(ExitCode::settings, format_text("RINGSHARD_FAULT: {} is not possible at {}",
                                                    trigger_->action, trigger_->point));
    act();
}

Faults::Corruption Faults::corruption_at(std::string_view point) {
    if (!is_now(point)) return Corruption::none;
    const Corruption corruption = corruption_of(trigger_->action);
    if (corruption != Corruption::none) return corruption;
    throw Error(ExitCode::settings, format_text("RINGSHARD_FAULT: {} is not possible at {}",
                                                trigger_->action, trigger_->point));
}

std::optional<Failure> Faults::reach(std::string_view point, const std::filesystem::path& file) {
    if (!is_now(point)) return std::nullopt;
    if (const auto words = words_of_io(trigger_->action))
        return Failure{ExitCode::io,
                       format_text("{}: {} (RINGSHARD_FAULT)", file.string(), *words)};
    act();
    return std::nullopt;
}

}  // namespace ringshard

#include "superseded_watch.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::train {

SupersededWatch::SupersededWatch(std::filesystem::path output_dir, int64_t attempt,
                                 const comm::Group& world) {
    const bool speaks = world.split_by_host().is_root();
    watching_ = std::jthread(
        [this, output_dir = std::move(output_dir), attempt, speaks](const std::stop_token& stop) {
            watch(stop, output_dir, attempt, speaks);
        });
}

void SupersededWatch::watch(const std::stop_token& stop, const std::filesystem::path& output_dir,
                            int64_t attempt, bool speaks) const {
    constexpr double long_for_a_step = 20;  // seconds
    constexpr auto pause = std::chrono::seconds(5);
    std::mutex mutex;
    std::condition_variable_any never_notified;
    std::unique_lock lock(mutex);
    while (!never_notified.wait_for(lock, stop, pause, [] { return false; }) &&
           !stop.stop_requested()) {
        if (clock_.seconds() - progress_at_ < long_for_a_step) continue;
        const auto superseded = checkpoint::check_newest(output_dir, attempt);
        if (!superseded) continue;
        if (speaks)
            std::fprintf(stderr, "trainer: [on %s] the step does not end, and %s\n",
                         comm::host_name().c_str(), superseded->message.c_str());
        std::fflush(nullptr);
        std::_Exit(number(superseded->code));
    }
}

}  // namespace ringshard::train

#include "watch.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::train {

Watch::Watch(std::filesystem::path output_dir, int64_t attempt, const comm::Group& world) {
    const bool speaks = world.split_by_host().is_root();
    watching_ = std::jthread(
        [this, output_dir = std::move(output_dir), attempt, speaks](const std::stop_token& stop) {
            watch(stop, output_dir, attempt, speaks);
        });
}

void Watch::begin_step() {
    constexpr double shortest = 120;  // seconds
    made_progress();
    limit_ = step_seconds_ == 0 ? hour : std::max(shortest, 20 * step_seconds_);
}

void Watch::end_step() {
    const double took = clock_.seconds() - progress_at_;
    step_seconds_ = std::max(took, 0.9 * step_seconds_ + 0.1 * took);
    limit_ = hour;
    made_progress();
}

void Watch::watch(const std::stop_token& stop, const std::filesystem::path& output_dir,
                  int64_t attempt, bool speaks) {
    constexpr double long_for_a_step = 20;  // seconds
    constexpr double pause = 5;
    std::mutex mutex;
    std::condition_variable_any never_notified;
    std::unique_lock lock(mutex);
    double looked_at = clock_.seconds();
    while (!never_notified.wait_for(lock, stop, std::chrono::duration<double>(pause), [] {
        return false;
    }) && !stop.stop_requested()) {
        const double now = clock_.seconds();
        // The whole process was stopped meanwhile, as `scontrol suspend` does: nobody was waited
        // for.
        if (now - looked_at > 3 * pause) made_progress();
        looked_at = now;
        const double waited = now - progress_at_;
        if (waited > long_for_a_step) leave_if_superseded(output_dir, attempt, speaks);
        if (waited > limit_)
            throw Error(ExitCode::peer_lost,
                        concat("nothing got done for ", std::lround(waited),
                               " s: another rank, its node or the network is lost or hangs"));
    }
}

void Watch::leave_if_superseded(const std::filesystem::path& output_dir, int64_t attempt,
                                bool speaks) const {
    const auto superseded = checkpoint::check_newest(output_dir, attempt);
    if (!superseded) return;
    if (speaks)
        std::fprintf(stderr, "trainer: [on %s] the step does not end, and %s\n",
                     comm::host_name().c_str(), superseded->message.c_str());
    std::fflush(nullptr);
    std::_Exit(number(superseded->code));
}

}  // namespace ringshard::train

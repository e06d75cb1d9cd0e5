#pragma once

#include <atomic>
#include <filesystem>
#include <thread>

#include "ringshard/base/timer.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::train {

// A rank that was cut off from the others waits inside a step for ever, while the batch system has
// started the run again elsewhere. So a step that takes long makes this look, on every rank,
// whether there is a newer attempt; if so the process ends there and then, with the code
// `superseded`.
class SupersededWatch {
public:
    // Collective over the world.
    SupersededWatch(std::filesystem::path output_dir, int64_t attempt, const comm::Group& world);

    void made_progress() { progress_at_ = clock_.seconds(); }

private:
    void watch(const std::stop_token& stop, const std::filesystem::path& output_dir,
               int64_t attempt, bool speaks) const;

    Timer clock_;
    std::atomic<double> progress_at_ = 0;
    std::jthread watching_;  // last: it uses the others
};

}  // namespace ringshard::train

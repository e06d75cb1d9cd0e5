#include "requests.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "ringshard/base/files.hpp"

namespace ringshard::train {

namespace {

volatile std::sig_atomic_t is_asked_to_stop = 0;

void note_signal(int) { is_asked_to_stop = 1; }

}  // namespace

Requests::Requests(std::filesystem::path output_dir, const comm::Group& world)
    : output_dir_(std::move(output_dir)) {
    if (world.is_root()) std::remove((output_dir_ / "stopped").c_str());
    std::signal(SIGTERM, note_signal);
    std::signal(SIGUSR1, note_signal);
}

Requests::Wish Requests::look(const comm::Group& world) const {
    Wish mine = is_asked_to_stop != 0 ? Wish::stop : Wish::none;
    if (world.is_root()) {
        const auto stop = output_dir_ / "stop-now";
        const auto save = output_dir_ / "save-now";
        if (file_exists(save)) {
            std::remove(save.c_str());
            mine = std::max(mine, Wish::save);
        }
        if (file_exists(stop)) {
            std::rename(stop.c_str(), (output_dir_ / "stopped").c_str());
            mine = Wish::stop;
        }
    }
    return static_cast<Wish>(world.maximum(static_cast<int64_t>(mine)));
}

}  // namespace ringshard::train

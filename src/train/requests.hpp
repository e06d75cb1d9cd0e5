#pragma once

#include <filesystem>

#include "ringshard/comm/agree.hpp"

namespace ringshard::train {

// What a running job is asked for from outside: a signal (SIGTERM or SIGUSR1, to any rank), or the
// files stop-now and save-now in output_dir.
class Requests {
public:
    // Takes over the two signals, and takes away the marker of an earlier end.
    Requests(std::filesystem::path output_dir, const comm::Group& world);

    enum class Wish { none, save, stop };
    // The strongest wish that reached any rank. save-now is gone afterwards; stop-now stays as a
    // marker, renamed to stopped, for the batch script. Collective over the world.
    Wish look(const comm::Group& world) const;

private:
    std::filesystem::path output_dir_;
};

}  // namespace ringshard::train

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"

namespace ringshard {

// Named places where a test may make the program fail: RINGSHARD_FAULT=step:5:kill kills every rank
// when it begins its fifth step, step:5:kill@2 rank 2 only; throw, segv and hang instead of kill
// fail in other ways. Off unless the variable is set. Points: step, and in a save save_begun
// (before anything is written), save_written, save_described (the manifest is there), save_named.
class Faults {
public:
    Faults() = default;
    static Expected<Faults> read(const Environment& environment, int rank);

    // The program is at `point`, for the first, second, ... time. May not return.
    void reach(std::string_view point);

private:
    struct Wish {
        std::string point;
        int64_t nth;
        std::string action;
    };
    std::optional<Wish> wish_;
    std::map<std::string, int64_t, std::less<>> times_;
};

}  // namespace ringshard

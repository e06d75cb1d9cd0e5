#pragma once

#include <string>

namespace ringshard {

// The exit codes, for batch scripts (docs/contract.md, section 6).
enum class ExitCode : int {
    done = 0,
    usage = 64,          // the command line cannot be understood
    bad_data = 65,       // dataset, model file or checkpoint is damaged
    missing_input = 66,  // a named input does not exist
    internal = 70,
    io = 74,             // disk full, read-only
    stopped_early = 75,  // by signal, time limit or stop file, with a good checkpoint
    bad_numbers = 76,
    peer_lost = 77,
    settings = 78,
    superseded = 79,
};

constexpr int number(ExitCode code) { return static_cast<int>(code); }

// An expected failure: reported to the user and handled, not thrown. The message names the setting
// or file, its value, where it came from, the rule and the cure.
struct Failure {
    ExitCode code = ExitCode::internal;
    std::string message;
};

}  // namespace ringshard

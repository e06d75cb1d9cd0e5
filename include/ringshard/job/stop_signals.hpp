#pragma once

#include <string>

// Signals that ask for an end. Noted here, acted upon at the end of a step. A second one of its
// kind ends the process at once (scancel and srun may both send the first: what comes within a
// second of it is the same).
namespace ringshard::job {

// SIGUSR1 is a warning that comes minutes ahead: from here on it is only noted.
void note_warnings();

// From here on SIGTERM and SIGINT are noted too.
void note_ends();

// The name of the first that came; empty if none did.
std::string noted_signal();

}  // namespace ringshard::job

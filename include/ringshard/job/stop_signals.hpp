#pragma once

#include <string>

// Records signals that request an end; the run acts on them after a step. A second signal of the
// same kind ends the process at once, but not within a second of the first: scancel and srun may
// both send it.
namespace ringshard::job {

// Records SIGUSR1, which schedulers send minutes before the end, instead of dying of it.
void note_warnings();

// Records SIGTERM and SIGINT too. A process that `announces` writes a line to standard error as
// soon as a signal comes: steps can take minutes.
void note_ends(bool announces);

// Returns the name of the first recorded signal; empty if no signal came.
std::string noted_signal();

}  // namespace ringshard::job

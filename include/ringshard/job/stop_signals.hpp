#pragma once

#include <string>

// Records signals that request an end; the run acts on them after a step. A second signal of the
// same kind ends the process at once, but not within a second of the first: scancel and srun may
// both send it.
namespace ringshard::job {

// Records SIGUSR1, which schedulers send minutes before the end, instead of dying of it.
void note_warnings();

// Records SIGTERM and SIGINT too.
void note_ends();

// Returns the name of the first recorded signal; empty if no signal came.
std::string noted_signal();

}  // namespace ringshard::job

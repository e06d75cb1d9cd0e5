#pragma once

#include <string>

// Records the signals that request an end; the run acts on them after a step. A second signal of
// the same kind ends the process at once (scancel and srun may both send the first: what comes
// within a second of it is the same).
namespace ringshard::job {

// Makes SIGUSR1, a warning minutes ahead, only recorded.
void note_warnings();

// Makes SIGTERM and SIGINT recorded too.
void note_ends();

// Returns the name of the first signal that came; empty if none came.
std::string noted_signal();

}  // namespace ringshard::job

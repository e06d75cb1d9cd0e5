#pragma once

// Tells the thread sanitizer, in a build that has it, that the bytes of a message are there for the
// thread that waited for it, whichever thread's call of MPI took them in: how MPI keeps its threads
// apart is not seen.
namespace ringshard::comm {

void mark_may_have_taken_in();  // after a call of MPI
void mark_waited();             // after the wait for a message

}  // namespace ringshard::comm

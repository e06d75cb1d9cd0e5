#pragma once

// Tells the thread sanitizer, in builds that have it, that the thread that waited for a message
// sees its bytes, whichever thread's MPI call received them. The sanitizer cannot see how MPI
// synchronizes its threads.
namespace ringshard::comm {

void mark_may_have_taken_in();  // after an MPI call
void mark_waited();             // after waiting for a message

}  // namespace ringshard::comm

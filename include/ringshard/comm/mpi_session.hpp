#pragma once

#include <optional>
#include <string>

#include "ringshard/comm/group.hpp"

namespace ringshard::comm {

// Initializes and finalizes MPI. During its lifetime, an uncaught exception on any rank prints one
// line and ends the whole job with the exception's exit code. The stack does not unwind, so no
// destructor waits for peers that never come.
class MpiSession {
public:
    MpiSession();
    ~MpiSession();
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;

    const Group& world() const { return *world_; }

private:
    std::optional<Group> world_;
};

// Returns the name and version of the MPI library. Works without a session.
std::string mpi_library();

}  // namespace ringshard::comm

#pragma once

#include <optional>
#include <string>

#include "ringshard/comm/group.hpp"

namespace ringshard::comm {

// Initializes and finalizes MPI. While it lives, an uncaught exception on any rank prints one line
// and ends the whole job with the exception's exit code: nothing unwinds, so no destructor waits
// for peers that will never come.
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

// Returns the name and version of the MPI library. Needs no session.
std::string mpi_library();

}  // namespace ringshard::comm

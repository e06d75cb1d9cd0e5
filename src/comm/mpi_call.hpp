#pragma once

#include <mpi.h>

#include <span>

#include "ringshard/base/error.hpp"

namespace ringshard::comm {

void throw_if_mpi_failed(int result, const char* call, const char* file, int line);

// Waits for all requests. Sleeps between tests instead of spinning: threads of several ranks may
// share few cores, and a spinning thread keeps its peer from running.
void wait_for(std::span<MPI_Request> requests);
inline void wait_for(MPI_Request& request) { wait_for(std::span(&request, 1)); }

}  // namespace ringshard::comm

#define RINGSHARD_MPI(call) \
    ::ringshard::comm::throw_if_mpi_failed((call), #call, __FILE__, __LINE__)

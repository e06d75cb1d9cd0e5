#include "ringshard/comm/mpi_session.hpp"

#include <array>
#include <exception>

#include "abort_job.hpp"
#include "mpi_call.hpp"
#include "ringshard/base/terminate.hpp"

namespace ringshard::comm {

MpiSession::MpiSession() {
    int granted = 0;
    RINGSHARD_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &granted));
    std::set_terminate(abort_job);
    // By default MPI ends the process at a failing call, before the caller sees the result.
    // Communicators made from this one inherit the handler.
    RINGSHARD_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (granted < MPI_THREAD_MULTIPLE)
        throw Error(ExitCode::settings,
                    "this MPI does not let several threads communicate (MPI_THREAD_MULTIPLE): use "
                    "an MPI that was "
                    "built with thread support, such as the distribution's Open MPI");
    world_.emplace(MPI_COMM_WORLD);
}

std::string mpi_library() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    return {text.data(), static_cast<size_t>(length)};
}

MpiSession::~MpiSession() {
    world_.reset();
    MPI_Finalize();
    std::set_terminate(end_process);
}

}  // namespace ringshard::comm

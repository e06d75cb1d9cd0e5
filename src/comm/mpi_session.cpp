#include "ringshard/comm/mpi_session.hpp"

#include <cstdio>
#include <cstdlib>

#include "mpi_call.hpp"
#include "ringshard/base/terminate.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::comm {

namespace {

[[noreturn]] void abort_job() {
    const Failure cause = describe_current_exception();
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "trainer: [rank %d on %s] %s\n", rank, host_name().c_str(),
                 cause.message.c_str());
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, number(cause.code));
    std::_Exit(number(cause.code));
}

}  // namespace

MpiSession::MpiSession() {
    int granted = 0;
    RINGSHARD_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &granted));
    std::set_terminate(abort_job);
    // Without this a failing call ends the process before its result can be looked at.
    // Communicators made from this one inherit it.
    RINGSHARD_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (granted < MPI_THREAD_MULTIPLE)
        throw Error(ExitCode::settings,
                    "this MPI does not let several threads communicate (MPI_THREAD_MULTIPLE): use "
                    "an MPI that was "
                    "built with thread support, such as the distribution's Open MPI");
    world_.emplace(MPI_COMM_WORLD);
}

MpiSession::~MpiSession() {
    world_.reset();
    MPI_Finalize();
    std::set_terminate(end_process);
}

}  // namespace ringshard::comm

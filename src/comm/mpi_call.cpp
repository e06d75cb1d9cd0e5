#include "mpi_call.hpp"

#include <array>
#include <chrono>
#include <thread>

#include "ringshard/base/narrow.hpp"

namespace ringshard::comm {

namespace {

// What goes wrong on the way, as against what a call was given.
bool is_about_peers(int result) {
    int kind = MPI_ERR_UNKNOWN;
    MPI_Error_class(result, &kind);
    return kind == MPI_ERR_OTHER || kind == MPI_ERR_INTERN || kind == MPI_ERR_UNKNOWN ||
           kind == MPI_ERR_IN_STATUS || kind == MPI_ERR_PENDING || kind >= MPI_ERR_LASTCODE;
}

}  // namespace

void throw_if_mpi_failed(int result, const char* call, const char* file, int line) {
    if (result == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> message{};
    int length = 0;
    MPI_Error_string(result, message.data(), &length);
    const bool lost = is_about_peers(result);
    throw Error(
        lost ? ExitCode::peer_lost : ExitCode::internal,
        concat(lost ? "a peer was lost: " : "", file, ":", line, ": ", call, ": ", message.data()));
}

void wait_for(std::span<MPI_Request> requests) {
    constexpr int patient_after = 20;
    constexpr auto pause = std::chrono::microseconds(20);
    for (int fruitless = 0;; ++fruitless) {
        int done = 0;
        RINGSHARD_MPI(
            MPI_Testall(narrow<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
        if (done != 0) return;
        if (fruitless >= patient_after) std::this_thread::sleep_for(pause);
    }
}

}  // namespace ringshard::comm

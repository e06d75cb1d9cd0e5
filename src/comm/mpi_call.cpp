#include "mpi_call.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "arrival_marks.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::comm {

namespace {

// Returns true for errors of the network or of a peer, false for errors of the arguments.
bool is_about_peers(int result) {
    int kind = MPI_ERR_UNKNOWN;
    MPI_Error_class(result, &kind);
    return kind == MPI_ERR_OTHER || kind == MPI_ERR_INTERN || kind == MPI_ERR_UNKNOWN ||
           kind == MPI_ERR_IN_STATUS || kind == MPI_ERR_PENDING || kind >= MPI_ERR_LASTCODE;
}

}  // namespace

void throw_if_mpi_failed(int result, const char* call, const char* file, int line) {
    mark_may_have_taken_in();
    if (result == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> message{};
    int length = 0;
    MPI_Error_string(result, message.data(), &length);
    const bool lost = is_about_peers(result);
    throw Error(lost ? ExitCode::peer_lost : ExitCode::internal,
                format_text("{}{}:{}: {}: {}", lost ? "a peer was lost: " : "", file, line, call,
                            message.data()));
}

void wait_for(std::span<MPI_Request> requests) {
    constexpr int patient_after = 20;
    // Sleep longer the longer the wait has lasted: the rank leaves its core to a slow peer, and is
    // late by at most a sixteenth of the wait.
    constexpr std::chrono::microseconds shortest(20);
    constexpr std::chrono::microseconds longest(1000);
    const Timer waiting;
    for (int fruitless = 0;; ++fruitless) {
        int done = 0;
        RINGSHARD_MPI(
            MPI_Testall(narrow<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
        if (done != 0) return mark_waited();
        if (fruitless < patient_after) continue;
        const std::chrono::microseconds so_far(static_cast<int64_t>(waiting.seconds() * 1e6));
        std::this_thread::sleep_for(std::clamp(so_far / 16, shortest, longest));
    }
}

}  // namespace ringshard::comm

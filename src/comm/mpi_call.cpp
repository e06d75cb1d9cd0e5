#include "mpi_call.hpp"

#include <array>
#include <chrono>
#include <thread>

#include "ringshard/base/narrow.hpp"

namespace ringshard::comm {

void throw_if_mpi_failed(int result, const char* call, const char* file, int line) {
    if (result == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> message{};
    int length = 0;
    MPI_Error_string(result, message.data(), &length);
    throw Error(ExitCode::internal, concat(file, ":", line, ": ", call, ": ", message.data()));
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

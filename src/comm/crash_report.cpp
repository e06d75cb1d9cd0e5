#include "ringshard/comm/crash_report.hpp"

#include <execinfo.h>
#include <fcntl.h>
#include <mpi.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "abort_job.hpp"
#include "ringshard/base/terminate.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::comm {

namespace {

constexpr std::array fatal_signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t signal_stack_size = size_t{64} << 10;

// The state that a signal handler needs, prepared beforehand, since a handler cannot allocate.
struct Scene {
    std::string file;
    std::string who;  // "rank 3 on hn2"
    std::atomic<int64_t> step = 0;
    std::unique_ptr<std::array<char, signal_stack_size>> stack;
};
Scene scene;
std::atomic<bool> is_set = false;
std::atomic_flag is_reported = ATOMIC_FLAG_INIT;  // two threads may fail at the same time

void put(int file, const char* text) {
    if (write(file, text, std::strlen(text)) < 0) return;  // no one is left to handle the error
}

// Writes "rank 3 on hn2, step 12".
void put_place(int file, const std::string& who) {
    put(file, who.c_str());
    int64_t step = scene.step;
    if (step == 0) return;
    std::array<char, 24> digits{};
    size_t first = digits.size() - 1;
    for (; step > 0; step /= 10) digits[--first] = static_cast<char>('0' + step % 10);
    put(file, ", step ");
    put(file, &digits[first]);
}

void write_file(const char* cause) {
    const int file = open(scene.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return;
    put_place(file, scene.who);
    put(file, "\ncause: ");
    put(file, cause);
    put(file, "\nbacktrace, the innermost first (c++filt makes the names readable):\n");
    std::array<void*, 128> frames{};
    backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), file);
    close(file);
}

void print_cause(const std::string& who, const char* cause) {
    put(STDERR_FILENO, "trainer: [");
    put_place(STDERR_FILENO, who);
    put(STDERR_FILENO, "] ");
    put(STDERR_FILENO, cause);
    put(STDERR_FILENO, "\n");
}

// A launcher that sees a rank fail may end before it has read what that rank wrote last. Waits
// until the pipe to it is empty, five seconds at most. A signal handler may call this.
void wait_until_launcher_has_read() {
    constexpr timespec pause{0, 2'000'000};
    struct stat kind {};
    if (fstat(STDERR_FILENO, &kind) != 0 || !S_ISFIFO(kind.st_mode)) return;
    int unread = 0;
    for (int tries = 0; tries < 2500; ++tries) {
        if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) return;
        nanosleep(&pause, nullptr);
    }
}

void on_fatal_signal(int number) {
    if (!is_reported.test_and_set()) {
        const char* name = sigabbrev_np(number);
        std::array<char, 64> cause{"the program crashed with SIG"};
        std::strncat(cause.data(), name == nullptr ? "?" : name, 16);
        write_file(cause.data());
        std::strncat(cause.data(), "; where: ", 16);
        put(STDERR_FILENO, "trainer: [");
        put_place(STDERR_FILENO, scene.who);
        put(STDERR_FILENO, "] ");
        put(STDERR_FILENO, cause.data());
        put(STDERR_FILENO, scene.file.c_str());
        put(STDERR_FILENO, "\n");
        wait_until_launcher_has_read();
    }
    std::signal(number, SIG_DFL);
    std::raise(number);  // delivered when this handler returns
}

void take_over_signals() {
    // After a stack overflow the handler needs a stack of its own.
    scene.stack = std::make_unique<std::array<char, signal_stack_size>>();
    stack_t stack{};
    stack.ss_sp = scene.stack->data();
    stack.ss_size = scene.stack->size();
    sigaltstack(&stack, nullptr);
    for (const int number : fatal_signals) {
        struct sigaction action {};
        action.sa_handler = on_fatal_signal;
        action.sa_flags = SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        sigaction(number, &action, nullptr);
    }
}

void give_back_signals() {
    for (const int number : fatal_signals) std::signal(number, SIG_DFL);
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    scene.stack.reset();
}

std::string describe_this_process() {
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return format_text("rank {} on {}", rank, host_name());
}

// Lets one thread of this process report the failure; other threads wait and exit.
void claim_report(const Failure& cause) {
    if (is_reported.test_and_set()) {
        std::this_thread::sleep_for(std::chrono::minutes(1));  // the other thread ends the job
        std::_Exit(number(cause.code));
    }
}

[[noreturn]] void leave(const Failure& cause) {
    // The watchdog may end a job while another thread still fills the scene.
    print_cause(is_set ? scene.who : describe_this_process(), cause.message.c_str());
    std::fflush(nullptr);
    wait_until_launcher_has_read();
    // MPI_Abort may hang; this process exits after ten seconds in any case.
    std::thread([code = number(cause.code)] {
        std::this_thread::sleep_for(std::chrono::seconds(10));
        std::_Exit(code);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, number(cause.code));
    std::_Exit(number(cause.code));
}

}  // namespace

void abort_job() {
    const Failure cause = describe_current_exception();
    if (cause.code == ExitCode::peer_lost) {
        // The peer itself, or the launcher that saw it die, reports more and ends this process
        // during this sleep. Of the ranks that remain, the lowest reports first.
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        std::this_thread::sleep_for(std::chrono::seconds(3) +
                                    std::chrono::milliseconds(100) * std::min(rank, 50));
    }
    claim_report(cause);
    if (is_set) write_file(cause.message.c_str());
    leave(cause);
}

void end_job(const Failure& cause) {
    claim_report(cause);
    leave(cause);
}

CrashReport::CrashReport(const Group& world, std::filesystem::path file) {
    scene.file = file;
    scene.who = format_text("rank {} on {}", world.rank(), host_name());
    scene.step = 0;
    std::array<void*, 1> first{};
    backtrace(first.data(), first.size());  // the first call loads a library; a handler must not
    is_set = true;
    handler_before_ = std::set_terminate(abort_job);
    take_over_signals();
}

CrashReport::~CrashReport() {
    give_back_signals();
    std::set_terminate(handler_before_);
    is_set = false;
}

void CrashReport::at_step(int64_t step) { scene.step = step; }

}  // namespace ringshard::comm

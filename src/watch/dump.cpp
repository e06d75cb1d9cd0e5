#include "dump.hpp"

#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::watch {

namespace {

// State of the signal handler, which takes no arguments.
std::atomic<int> backtrace_file = -1;  // file descriptor, or -1
std::atomic<bool> has_written = false;

int sample_signal() { return SIGRTMIN + 3; }  // a signal that hardly any library uses

void write_backtrace(int) {
    const int error_before = errno;
    if (const int file = backtrace_file; file >= 0) {
        std::array<void*, 128> frames{};
        backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), file);
        has_written = true;
    }
    errno = error_before;
}

}  // namespace

StackSampler::StackSampler() : thread_(pthread_self()) {
    std::array<void*, 1> first{};
    backtrace(first.data(), first.size());  // the first call loads a library; a handler must not
    struct sigaction action {};
    action.sa_handler = write_backtrace;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(sample_signal(), &action, nullptr);
}

StackSampler::~StackSampler() { std::signal(sample_signal(), SIG_IGN); }

bool StackSampler::append_backtrace(const std::filesystem::path& file) const {
    const int opened = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (opened < 0) return false;
    has_written = false;
    backtrace_file = opened;
    pthread_kill(thread_, sample_signal());
    constexpr int patience = 100;
    constexpr auto pause = std::chrono::milliseconds(10);
    for (int i = 0; i < patience && !has_written; ++i) std::this_thread::sleep_for(pause);
    backtrace_file = -1;
    // A thread inside a system call writes its backtrace when the call returns, so keep the file
    // open.
    if (has_written) close(opened);
    return has_written;
}

namespace {

// Returns name and state of every thread, and the kernel function in which it sleeps.
std::string describe_threads() {
    std::string text;
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
        const std::string stat = read_file(task.path() / "stat").value_or("");
        const size_t after_name = stat.rfind(')');
        const std::string state = after_name != std::string::npos && after_name + 2 < stat.size()
                                      ? stat.substr(after_name + 2, 1)
                                      : "?";
        text += format_text("    {}  {}  {}  {}\n", task.path().filename().string(), state,
                            trim(read_file(task.path() / "comm").value_or("?")),
                            trim(read_file(task.path() / "wchan").value_or("")));
    }
    return text;
}

std::string describe_group(const comm::GroupLogState& group, double now) {
    std::string text = format_text(
        "group {} of rank {}: {} begun, {} ended{}\n", group.name, group.leader, group.begun,
        group.ended,
        group.awaited > 0 ? format_text(", waiting for {}{}", group.awaited,
                                        group.is_main_waiting ? "" : " beside the training")
                          : "");
    for (const comm::OperationRecord& entry : group.last)
        text += format_text("    {}  {}  {} bytes, begun {} s ago{}\n", entry.number, entry.what,
                            entry.bytes, now - entry.began,
                            entry.ended < 0
                                ? ", under way"
                                : format_text(", ended after {} s", entry.ended - entry.began));
    return text;
}

}  // namespace

void write_dump(const std::filesystem::path& file, const std::string& headline,
                const comm::FlightRecorder& flight_recorder, const StackSampler& stack_sampler) {
    std::string text = format_text(
        "{}\n"
        "at: {}, for {} s\n\n"
        "threads:\n"
        "{}\n"
        "operations with other ranks, the last ones of every group:\n",
        headline, flight_recorder.activity(), flight_recorder.seconds_in_activity(),
        describe_threads());
    const double now = flight_recorder.now();
    for (const comm::GroupLogState& group : flight_recorder.groups())
        if (group.begun > 0) text += describe_group(group, now);
    text +=
        "\nthe thread that trains, the innermost call first (c++filt makes the names readable):\n";
    // If this file cannot be written, the watchdog's line on standard error is all that remains.
    if (write_file_atomically(file, text)) return;
    if (!stack_sampler.append_backtrace(file))
        static_cast<void>(append_line(
            file, "no backtrace: the thread does not answer, since it is inside a system call"));
}

}  // namespace ringshard::watch

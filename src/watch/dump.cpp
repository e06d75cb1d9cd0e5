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

// A handler of a signal finds what it needs without arguments.
std::atomic<int> asked_into = -1;  // a file
std::atomic<bool> has_answered = false;

int question() { return SIGRTMIN + 3; }  // a signal that nobody else is likely to use

void answer(int) {
    const int error_before = errno;
    if (const int file = asked_into; file >= 0) {
        std::array<void*, 128> frames{};
        backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), file);
        has_answered = true;
    }
    errno = error_before;
}

}  // namespace

StackWitness::StackWitness() : thread_(pthread_self()) {
    std::array<void*, 1> first{};
    backtrace(first.data(), first.size());  // the first call loads a library
    struct sigaction action {};
    action.sa_handler = answer;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(question(), &action, nullptr);
}

StackWitness::~StackWitness() { std::signal(question(), SIG_IGN); }

bool StackWitness::testify(const std::filesystem::path& file) const {
    const int opened = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (opened < 0) return false;
    has_answered = false;
    asked_into = opened;
    pthread_kill(thread_, question());
    constexpr int patience = 100;
    constexpr auto pause = std::chrono::milliseconds(10);
    for (int i = 0; i < patience && !has_answered; ++i) std::this_thread::sleep_for(pause);
    asked_into = -1;
    // A thread inside the kernel answers when it comes back; the file stays open for it.
    if (has_answered) close(opened);
    return has_answered;
}

namespace {

// Name, state and, where it sleeps, the place in the kernel of every thread.
std::string describe_threads() {
    std::string text;
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
        const std::string stat = read_file(task.path() / "stat").value_or("");
        const size_t after_name = stat.rfind(')');
        const std::string state = after_name != std::string::npos && after_name + 2 < stat.size()
                                      ? stat.substr(after_name + 2, 1)
                                      : "?";
        text += concat("    ", task.path().filename().string(), "  ", state, "  ",
                       trim(read_file(task.path() / "comm").value_or("?")), "  ",
                       trim(read_file(task.path() / "wchan").value_or("")), '\n');
    }
    return text;
}

std::string describe_page(const comm::PageState& page, double now) {
    std::string text =
        concat("group ", page.name, " of rank ", page.leader, ": ", page.begun, " begun, ",
               page.ended, " ended",
               page.awaited > 0 ? concat(", ", page.awaited, " is waited for",
                                         page.is_main_waiting ? "" : " beside the training")
                                : "",
               '\n');
    for (const comm::JournalEntry& entry : page.last)
        text += concat("    ", entry.number, "  ", entry.what, "  ", entry.bytes, " bytes, begun ",
                       now - entry.began, " s ago",
                       entry.ended < 0 ? ", under way"
                                       : concat(", ended after ", entry.ended - entry.began, " s"),
                       '\n');
    return text;
}

}  // namespace

void write_dump(const std::filesystem::path& file, const std::string& headline,
                const comm::Journal& journal, const StackWitness& witness) {
    std::string text = concat(headline, "\nat: ", journal.what_is_done(), ", for ",
                              journal.seconds_in_it(), " s\n\nthreads:\n", describe_threads(),
                              "\noperations with other ranks, the last ones of every group:\n");
    const double now = journal.now();
    for (const comm::PageState& page : journal.pages())
        if (page.begun > 0) text += describe_page(page, now);
    text +=
        "\nthe thread that trains, the innermost call first (c++filt makes the names readable):\n";
    // What cannot be written is told on standard error alone: there is nothing else to be done.
    if (write_file_atomically(file, text)) return;
    if (!witness.testify(file))
        static_cast<void>(append_line(file, "it does not answer: it is inside the kernel"));
}

}  // namespace ringshard::watch

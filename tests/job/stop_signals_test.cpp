#include "ringshard/job/stop_signals.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

using namespace ringshard;

namespace {

// How a process ends that does this: its exit code, or minus the signal that ended it.
int end_of(const std::function<int()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

constexpr auto more_than_a_second = std::chrono::milliseconds(1100);

}  // namespace

BOOST_AUTO_TEST_CASE(a_warning_is_noted_and_the_first_one_counts) {
    BOOST_TEST(end_of([] {
                   job::note_warnings();
                   job::note_ends(false);
                   if (!job::noted_signal().empty()) return 1;
                   std::raise(SIGUSR1);
                   std::raise(SIGTERM);
                   return job::noted_signal() == "SIGUSR1" ? 0 : 2;
               }) == 0);
}

BOOST_AUTO_TEST_CASE(before_the_first_step_sigterm_ends) {
    BOOST_TEST(end_of([] {
                   job::note_warnings();
                   std::raise(SIGTERM);
                   return 0;
               }) == -SIGTERM);
}

// Before the step is over, which can take minutes.
BOOST_AUTO_TEST_CASE(a_signal_is_acknowledged_at_once) {
    int ends[2];
    BOOST_REQUIRE(pipe(ends) == 0);
    const int code = end_of([&] {
        dup2(ends[1], STDERR_FILENO);
        job::note_ends(true);
        std::raise(SIGINT);
        std::raise(SIGTERM);  // one line is enough
        return 0;
    });
    close(ends[1]);
    std::string said(1000, ' ');
    const auto length = read(ends[0], said.data(), said.size());
    close(ends[0]);
    BOOST_TEST(code == 0);
    BOOST_REQUIRE(length > 0);
    said.resize(static_cast<size_t>(length));
    BOOST_TEST(said.find("asked to stop: ") != std::string::npos);
    BOOST_TEST(std::ranges::count(said, '\n') == 2);
}

BOOST_AUTO_TEST_CASE(a_second_one_ends_at_once) {
    for (const int number : {SIGTERM, SIGINT, SIGUSR1})
        BOOST_TEST(end_of([number] {
                       job::note_warnings();
                       job::note_ends(false);
                       std::raise(number);
                       std::raise(number);  // the launcher's copy of the same
                       std::this_thread::sleep_for(more_than_a_second);
                       std::raise(number);
                       return 0;
                   }) == -number);
}

#include "ringshard/job/stop_signals.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <functional>
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
                   job::note_ends();
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

BOOST_AUTO_TEST_CASE(a_second_one_ends_at_once) {
    for (const int number : {SIGTERM, SIGINT, SIGUSR1})
        BOOST_TEST(end_of([number] {
                       job::note_warnings();
                       job::note_ends();
                       std::raise(number);
                       std::raise(number);  // the launcher's copy of the same
                       std::this_thread::sleep_for(more_than_a_second);
                       std::raise(number);
                       return 0;
                   }) == -number);
}

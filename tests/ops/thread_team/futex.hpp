#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>

// Threads sleep by a system call of which the thread sanitizer takes no notice: it sees the order
// of memory that the atomics say, and no more.
namespace ringshard::test {

inline void wake_all(std::atomic<int>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Returns when the word is no longer `value`, or earlier. Ends the program if nobody wakes it.
inline void sleep_while(std::atomic<int>& word, int value, long most_seconds = 0) {
    const timespec patience{.tv_sec = most_seconds, .tv_nsec = 0};
    if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value,
                most_seconds == 0 ? nullptr : &patience, nullptr, 0) == 0 ||
        errno != ETIMEDOUT)
        return;
    std::fputs("a thread of a team waits at a barrier that others do not reach\n", stderr);
    std::abort();
}

}  // namespace ringshard::test

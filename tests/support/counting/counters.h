#pragma once

#include <stdint.h>

/* Counters of one rank, in a file that is mapped into memory: they outlive the process, however it ends. */

struct counter {
    char name[40];
    uint64_t calls;
    uint64_t bytes; /* or nanoseconds, as the name says */
};

/* Finds the counter of that name, or adds it. Safe in any thread. NULL before the library has started. */
struct counter* counter_named(const char* name);

void count(struct counter* counter, uint64_t bytes);

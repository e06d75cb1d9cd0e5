#define _GNU_SOURCE
#include "counters.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { most_counters = 256 };

static struct counter* table;
static int num_counters;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const char* rank_of_process(void) {
    static const char* const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
        if (getenv(names[i]) != NULL) return getenv(names[i]);
    return NULL;
}

/* System calls by number: this library counts those that go through the C library. */
static void start(void) {
    const char* const folder = getenv("COUNTING_OUTPUT");
    const char* const rank = rank_of_process();
    if (folder == NULL || rank == NULL) return;
    char name[4096];
    snprintf(name, sizeof(name), "%s/rank-%s", folder, rank);
    const int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    const size_t size = most_counters * sizeof(struct counter);
    if (file < 0) return;
    if (syscall(SYS_ftruncate, file, size) == 0) {
        void* const memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory != MAP_FAILED) table = memory;
    }
    syscall(SYS_close, file);
}

struct counter* counter_named(const char* name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    if (table == NULL) return NULL;
    pthread_mutex_lock(&mutex);
    struct counter* found = NULL;
    for (int i = 0; i < num_counters && found == NULL; ++i)
        if (strcmp(table[i].name, name) == 0) found = &table[i];
    if (found == NULL && num_counters < most_counters) {
        found = &table[num_counters++];
        strncpy(found->name, name, sizeof(found->name) - 1);
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

void count(struct counter* counter, uint64_t bytes) {
    if (counter == NULL) return;
    __atomic_fetch_add(&counter->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counter->bytes, bytes, __ATOMIC_RELAXED);
}

/* Counts what a process does through MPI, by the profiling interface of the standard, and the CPU time of its threads
   between their operations. Preloaded. Bytes are those that this rank receives; of a send, those that it sends. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "counters.h"

#define NOTE(name, bytes)                                                  \
    do {                                                                   \
        static struct counter* counter;                                    \
        if (counter == NULL) counter = counter_named(name);                \
        count(counter, bytes);                                             \
    } while (0)

static uint64_t bytes_of(int count, MPI_Datatype type) {
    int size = 0;
    PMPI_Type_size(type, &size);
    return (uint64_t)count * (uint64_t)size;
}

static int size_of(MPI_Comm communicator) {
    int size = 0;
    PMPI_Comm_size(communicator, &size);
    return size;
}

static int is_root(MPI_Comm communicator, int root) {
    int rank = 0;
    PMPI_Comm_rank(communicator, &rank);
    return rank == root;
}

static uint64_t cpu_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A thread works from the end of one operation, or from its own start, to the beginning of the next. */
static __thread uint64_t work_began;
static void end_work(void) {
    const uint64_t now = cpu_nanoseconds();
    NOTE("work ns", now - work_began);
    work_began = now;
}
static void begin_work(void) { work_began = cpu_nanoseconds(); }

static void note_memory(const char* when) {
    FILE* const file = fopen("/proc/self/status", "r");
    char line[256];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char name[32];
        unsigned long long kib = 0;
        if (sscanf(line, "%31[^:]: %llu kB", name, &kib) != 2) continue;
        if (strcmp(name, "VmHWM") != 0 && strcmp(name, "RssAnon") != 0 && strcmp(name, "RssShmem") != 0) continue;
        char counter[64];
        snprintf(counter, sizeof(counter), "%s %s", name, when);
        count(counter_named(counter), (uint64_t)kib * 1024);
    }
    if (file != NULL) fclose(file);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    const int result = PMPI_Init_thread(argc, argv, required, provided);
    note_memory("after MPI_Init");
    begin_work();
    return result;
}

int MPI_Finalize(void) {
    end_work();
    note_memory("at the end");
    return PMPI_Finalize();
}

#define DEFINE_BLOCKING(name, parameters, arguments) \
    int MPI_##name parameters {                      \
        end_work();                                  \
        NOTE("MPI_" #name, 0);                       \
        const int result = PMPI_##name arguments;    \
        begin_work();                                \
        return result;                               \
    }
DEFINE_BLOCKING(Comm_dup, (MPI_Comm of, MPI_Comm* copy), (of, copy))
DEFINE_BLOCKING(Comm_split, (MPI_Comm of, int color, int key, MPI_Comm* part), (of, color, key, part))
DEFINE_BLOCKING(Comm_split_type, (MPI_Comm of, int type, int key, MPI_Info info, MPI_Comm* part), (of, type, key, info, part))
DEFINE_BLOCKING(Comm_free, (MPI_Comm* of), (of))

#define DEFINE_STARTING(name, bytes, parameters, arguments) \
    int MPI_##name parameters {                             \
        end_work();                                         \
        NOTE("MPI_" #name, bytes);                          \
        return PMPI_##name arguments;                       \
    }
DEFINE_STARTING(Ibarrier, 0, (MPI_Comm in, MPI_Request* request), (in, request))
DEFINE_STARTING(Iallreduce, bytes_of(number, type), (const void* mine, void* all, int number, MPI_Datatype type, MPI_Op operation, MPI_Comm in, MPI_Request* request), (mine, all, number, type, operation, in, request))
DEFINE_STARTING(Ireduce, is_root(in, root) ? bytes_of(number, type) : 0, (const void* mine, void* all, int number, MPI_Datatype type, MPI_Op operation, int root, MPI_Comm in, MPI_Request* request), (mine, all, number, type, operation, root, in, request))
DEFINE_STARTING(Ibcast, bytes_of(number, type), (void* what, int number, MPI_Datatype type, int root, MPI_Comm in, MPI_Request* request), (what, number, type, root, in, request))
DEFINE_STARTING(Iallgather, bytes_of(each, into) * (uint64_t)size_of(in), (const void* mine, int number, MPI_Datatype type, void* all, int each, MPI_Datatype into, MPI_Comm in, MPI_Request* request), (mine, number, type, all, each, into, in, request))
DEFINE_STARTING(Igather, is_root(in, root) ? bytes_of(each, into) * (uint64_t)size_of(in) : 0, (const void* mine, int number, MPI_Datatype type, void* all, int each, MPI_Datatype into, int root, MPI_Comm in, MPI_Request* request), (mine, number, type, all, each, into, root, in, request))
DEFINE_STARTING(Isend, bytes_of(number, type), (const void* what, int number, MPI_Datatype type, int to, int tag, MPI_Comm in, MPI_Request* request), (what, number, type, to, tag, in, request))
DEFINE_STARTING(Irecv, bytes_of(number, type), (void* what, int number, MPI_Datatype type, int from, int tag, MPI_Comm in, MPI_Request* request), (what, number, type, from, tag, in, request))

static uint64_t sum_of(const int* counts, MPI_Comm in) {
    uint64_t sum = 0;
    for (int i = 0; i < size_of(in); ++i) sum += (uint64_t)counts[i];
    return sum;
}
DEFINE_STARTING(Iallgatherv, sum_of(counts, in) * bytes_of(1, into), (const void* mine, int number, MPI_Datatype type, void* all, const int counts[], const int places[], MPI_Datatype into, MPI_Comm in, MPI_Request* request), (mine, number, type, all, counts, places, into, in, request))
DEFINE_STARTING(Igatherv, is_root(in, root) ? sum_of(counts, in) * bytes_of(1, into) : 0, (const void* mine, int number, MPI_Datatype type, void* all, const int counts[], const int places[], MPI_Datatype into, int root, MPI_Comm in, MPI_Request* request), (mine, number, type, all, counts, places, into, root, in, request))

DEFINE_STARTING(Iscatter, bytes_of(number, into), (const void* all, int each, MPI_Datatype type, void* mine, int number, MPI_Datatype into, int root, MPI_Comm in, MPI_Request* request), (all, each, type, mine, number, into, root, in, request))
DEFINE_STARTING(Iscatterv, bytes_of(number, into), (const void* all, const int counts[], const int places[], MPI_Datatype type, void* mine, int number, MPI_Datatype into, int root, MPI_Comm in, MPI_Request* request), (all, counts, places, type, mine, number, into, root, in, request))

int MPI_Testall(int number, MPI_Request requests[], int* done, MPI_Status statuses[]) {
    const int result = PMPI_Testall(number, requests, done, statuses);
    if (*done != 0) begin_work();
    return result;
}

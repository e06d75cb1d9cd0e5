// Preloaded into the program by tests. It writes down what a process does with the files below
// FILE_SHIM_FOLDER, one line each, into FILE_SHIM_LOG.<rank>:
//   open PATH | stat PATH | list PATH | read BYTES PATH | late PATH
// With FILE_SHIM_LATE=SECONDS, ranks other than 0 live on a node whose look-ups are late, as an NFS
// client's are that remembers names which were not there: for so long after it first asks for one
// that another process has made, it is told that there is none.
// With FILE_SHIM_FREE=BYTES every disk has so much left.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_NAMES 4096
#define MOST_FILES 4096

struct name {
    char path[512];
    double asked;    // seconds; 0: this process made it
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct name names[MOST_NAMES];
static int num_names;
static char* paths_of_files[MOST_FILES];  // by descriptor
static int log_file = -2;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static const char* rank(void) {
    const char* number = getenv("OMPI_COMM_WORLD_RANK");
    return number != NULL ? number : "0";
}

// The absolute path where it lies below the folder that is watched, else none.
static const char* watched(const char* path, char* room) {
    const char* folder = getenv("FILE_SHIM_FOLDER");
    if (folder == NULL || path == NULL) return NULL;
    if (path[0] == '/') {
        snprintf(room, PATH_MAX, "%s", path);
    } else {
        char here[PATH_MAX / 2];
        if (getcwd(here, sizeof(here)) == NULL) return NULL;
        snprintf(room, PATH_MAX, "%s/%s", here, path);
    }
    const size_t length = strlen(folder);
    return strncmp(room, folder, length) == 0 && (room[length] == '/' || room[length] == 0) ? room
                                                                                         : NULL;
}

static void note(const char* what, const char* path) {
    const char* log = getenv("FILE_SHIM_LOG");
    if (log == NULL) return;
    if (log_file == -2) {
        char name[PATH_MAX];
        snprintf(name, sizeof(name), "%s.%s", log, rank());
        log_file = (int)syscall(SYS_openat, AT_FDCWD, name,
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    }
    char line[PATH_MAX + 64];
    const int length = snprintf(line, sizeof(line), "%s %s\n", what, path);
    if (syscall(SYS_write, log_file, line, (size_t)length) < 0) abort();
}

static struct name* find(const char* path) {
    for (int i = 0; i < num_names; ++i)
        if (strcmp(names[i].path, path) == 0) return &names[i];
    if (num_names == MOST_NAMES) abort();
    snprintf(names[num_names].path, sizeof(names[0].path), "%s", path);
    names[num_names].asked = -1;
    return &names[num_names++];
}

// Under the mutex. Also of a name below a folder that is late.
static int name_is_late(const char* path, double seconds) {
    struct stat ignored;
    struct name* name = find(path);
    if (name->asked == 0) return 0;
    if (name->asked < 0) {
        if (syscall(SYS_newfstatat, AT_FDCWD, path, &ignored, AT_SYMLINK_NOFOLLOW) != 0) return 0;
        name->asked = now();
        note("late", path);
    }
    return now() < name->asked + seconds;
}

static int is_late(const char* path) {
    const char* late = getenv("FILE_SHIM_LATE");
    if (late == NULL || strcmp(rank(), "0") == 0) return 0;
    const double seconds = atof(late);
    const size_t root = strlen(getenv("FILE_SHIM_FOLDER"));
    if (strlen(path) <= root) return 0;
    char part[PATH_MAX];
    snprintf(part, sizeof(part), "%s", path);
    int found = 0;
    pthread_mutex_lock(&mutex);
    for (char* slash = part + root; slash != NULL && !found;) {
        slash = strchr(slash + 1, '/');
        if (slash != NULL) *slash = 0;
        found = name_is_late(part, seconds);
        if (slash != NULL) *slash = '/';
    }
    pthread_mutex_unlock(&mutex);
    if (found) errno = ENOENT;
    return found;
}

static void note_made(const char* path) {
    if (getenv("FILE_SHIM_LATE") == NULL) return;
    pthread_mutex_lock(&mutex);
    find(path)->asked = 0;
    pthread_mutex_unlock(&mutex);
}

// Whether the folder that a new name goes into is late.
static int folder_is_late(const char* path) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    char* end = strrchr(folder, '/');
    *end = 0;
    const char* root = getenv("FILE_SHIM_FOLDER");
    return strlen(folder) > strlen(root) && is_late(folder);
}

static int opened(int file, const char* path, int flags) {
    if (file < 0 || path == NULL) return file;
    if (flags & O_CREAT) note_made(path);
    note(flags & O_DIRECTORY ? "list" : "open", path);
    if (file < MOST_FILES) {
        pthread_mutex_lock(&mutex);
        free(paths_of_files[file]);
        paths_of_files[file] = strdup(path);
        pthread_mutex_unlock(&mutex);
    }
    return file;
}

static int open_watched(int folder, const char* path, int flags, mode_t mode) {
    char room[PATH_MAX];
    const char* seen = folder == AT_FDCWD || path[0] == '/' ? watched(path, room) : NULL;
    if (folder != AT_FDCWD && path[0] != '/' && folder < MOST_FILES && paths_of_files[folder]) {
        snprintf(room, sizeof(room), "%s/%s", paths_of_files[folder], path);
        seen = room;
    }
    if (seen && (flags & O_CREAT ? folder_is_late(seen) : is_late(seen))) return -1;
    return opened((int)syscall(SYS_openat, folder, path, flags, mode), seen, flags);
}

#define OPEN(NAME, ...)                                       \
    mode_t mode = 0;                                          \
    va_list rest;                                             \
    va_start(rest, flags);                                    \
    if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(rest, mode_t); \
    va_end(rest);                                             \
    return open_watched(__VA_ARGS__, flags, mode)

int open(const char* path, int flags, ...) { OPEN(open, AT_FDCWD, path); }
int open64(const char* path, int flags, ...) { OPEN(open64, AT_FDCWD, path); }
int openat(int folder, const char* path, int flags, ...) { OPEN(openat, folder, path); }
int openat64(int folder, const char* path, int flags, ...) { OPEN(openat64, folder, path); }

#define NEXT(TYPE, NAME) TYPE next = (TYPE)dlsym(RTLD_NEXT, NAME)

int statvfs(const char* restrict path, struct statvfs* restrict space) {
    typedef int Statvfs(const char*, struct statvfs*);
    NEXT(Statvfs*, "statvfs");
    const int result = next(path, space);
    const char* left = getenv("FILE_SHIM_FREE");
    if (result == 0 && left != NULL) space->f_bavail = strtoull(left, NULL, 10) / space->f_frsize;
    return result;
}

typedef FILE* (*fopen_type)(const char*, const char*);
static FILE* fopen_watched(const char* path, const char* how, const char* name) {
    NEXT(fopen_type, name);
    char room[PATH_MAX];
    const char* seen = watched(path, room);
    if (seen && is_late(seen)) return NULL;
    FILE* file = next(path, how);
    if (file != NULL) opened(fileno(file), seen, 0);
    return file;
}
FILE* fopen(const char* path, const char* how) { return fopen_watched(path, how, "fopen"); }
FILE* fopen64(const char* path, const char* how) { return fopen_watched(path, how, "fopen64"); }

typedef DIR* (*opendir_type)(const char*);
DIR* opendir(const char* path) {
    NEXT(opendir_type, "opendir");
    char room[PATH_MAX];
    const char* seen = watched(path, room);
    if (seen && is_late(seen)) return NULL;
    DIR* folder = next(path);
    if (folder != NULL && seen) note("list", seen);
    return folder;
}

static int stat_is_late(const char* path) {
    char room[PATH_MAX];
    const char* seen = watched(path, room);
    if (!seen) return 0;
    note("stat", seen);
    return is_late(seen);
}
#define STAT(NAME, STRUCT)                                               \
    typedef int (*NAME##_type)(const char*, struct STRUCT*);             \
    int NAME(const char* path, struct STRUCT* into) {                    \
        NEXT(NAME##_type, #NAME);                                        \
        return stat_is_late(path) ? -1 : next(path, into);               \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

static ssize_t was_read(int file, ssize_t bytes) {
    if (bytes <= 0 || file < 0 || file >= MOST_FILES || paths_of_files[file] == NULL) return bytes;
    char what[32];
    snprintf(what, sizeof(what), "read %zd", bytes);
    note(what, paths_of_files[file]);
    return bytes;
}
ssize_t read(int file, void* into, size_t count) {
    return was_read(file, syscall(SYS_read, file, into, count));
}
ssize_t pread(int file, void* into, size_t count, off_t at) {
    return was_read(file, syscall(SYS_pread64, file, into, count, at));
}
ssize_t pread64(int file, void* into, size_t count, off64_t at) {
    return was_read(file, syscall(SYS_pread64, file, into, count, at));
}
int close(int file) {
    if (file >= 0 && file < MOST_FILES && paths_of_files[file] != NULL) {
        pthread_mutex_lock(&mutex);
        free(paths_of_files[file]);
        paths_of_files[file] = NULL;
        pthread_mutex_unlock(&mutex);
    }
    return (int)syscall(SYS_close, file);
}
// What is renamed has been made here.
typedef int (*rename_type)(const char*, const char*);
int rename(const char* from, const char* to) {
    NEXT(rename_type, "rename");
    char room[PATH_MAX];
    const int result = next(from, to);
    if (result == 0 && watched(to, room)) note_made(room);
    return result;
}
int mkdir(const char* path, mode_t mode) {
    char room[PATH_MAX];
    const char* seen = watched(path, room);
    if (seen && folder_is_late(seen)) return -1;
    const int result = (int)syscall(SYS_mkdir, path, mode);
    if (result == 0 && seen) note_made(seen);
    return result;
}

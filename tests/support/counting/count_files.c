/* Counts what a process asks of file systems, by the folder that a file lies in. Preloaded.
   COUNTING_FOLDERS=output=/path:model=/path names the folders; files elsewhere are not counted. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"

enum { most_folders = 8, most_files = 65536 };
enum operation { op_open, op_look, op_list, op_make, op_rename, op_remove, op_flush, op_read, op_write, op_map, num_operations };
static const char* const operation_names[num_operations] = {"open", "look", "list", "make", "rename", "remove", "flush", "read", "write", "map"};

struct folder {
    char path[1024];
    struct counter* counters[num_operations];
};
static struct folder folders[most_folders];
static int num_folders;
static unsigned char folder_of_file[most_files]; /* by descriptor; 0: none that counts */

__attribute__((constructor)) static void read_folders(void) {
    const char* at = getenv("COUNTING_FOLDERS");
    while (at != NULL && *at != '\0' && num_folders < most_folders) {
        const char* const is = strchr(at, '=');
        const char* const end = strchrnul(at, ':');
        if (is == NULL || is > end) return;
        struct folder* const folder = &folders[num_folders];
        snprintf(folder->path, sizeof(folder->path), "%.*s", (int)(end - is - 1), is + 1);
        for (int i = 0; i < num_operations; ++i) {
            char name[40];
            snprintf(name, sizeof(name), "%.*s %s", (int)(is - at), at, operation_names[i]);
            folder->counters[i] = counter_named(name);
        }
        ++num_folders;
        at = *end == ':' ? end + 1 : end;
    }
}

/* 1 and more: the folder that the path lies in, or is. */
static int folder_of(const char* path) {
    for (int i = 0; path != NULL && i < num_folders; ++i) {
        const size_t length = strlen(folders[i].path);
        if (strncmp(path, folders[i].path, length) == 0 && (path[length] == '/' || path[length] == '\0')) return i + 1;
    }
    return 0;
}

static int folder_at(int base, const char* path) {
    if (path != NULL && path[0] != '/' && base >= 0 && base < most_files) return folder_of_file[base];
    return folder_of(path);
}

static void note(int folder, enum operation operation, uint64_t bytes) {
    if (folder > 0) count(folders[folder - 1].counters[operation], bytes);
}

static int opened(int file, int folder) {
    note(folder, op_open, 0);
    if (file >= 0 && file < most_files) folder_of_file[file] = (unsigned char)folder;
    return file;
}

static int folder_behind(int file) { return file >= 0 && file < most_files ? folder_of_file[file] : 0; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MODE_OF(flags, mode)                        \
    mode_t mode = 0;                                \
    if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {   \
        va_list rest;                               \
        va_start(rest, flags);                      \
        mode = va_arg(rest, mode_t);                \
        va_end(rest);                               \
    }

#define DEFINE_OPEN(name)                                        \
    int name(const char* path, int flags, ...) {                 \
        MODE_OF(flags, mode)                                     \
        return opened(REAL(name)(path, flags, mode), folder_of(path)); \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                                         \
    int name(int base, const char* path, int flags, ...) {                          \
        MODE_OF(flags, mode)                                                        \
        return opened(REAL(name)(base, path, flags, mode), folder_at(base, path));  \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

#define DEFINE_FOPEN(name)                                       \
    FILE* name(const char* path, const char* mode) {             \
        FILE* const stream = REAL(name)(path, mode);             \
        opened(stream != NULL ? fileno(stream) : -1, folder_of(path)); \
        return stream;                                           \
    }
DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

int close(int file) {
    if (file >= 0 && file < most_files) folder_of_file[file] = 0;
    return REAL(close)(file);
}

#define DEFINE_PATH_CALL(name, operation, parameters, arguments) \
    int name parameters {                                        \
        note(folder_of(path), operation, 0);                     \
        return REAL(name) arguments;                             \
    }
#define DEFINE_PATH_CALL_AT(name, operation, parameters, arguments) \
    int name parameters {                                           \
        note(folder_at(base, path), operation, 0);                  \
        return REAL(name) arguments;                                \
    }
DEFINE_PATH_CALL(stat, op_look, (const char* path, struct stat* status), (path, status))
DEFINE_PATH_CALL(stat64, op_look, (const char* path, struct stat64* status), (path, status))
DEFINE_PATH_CALL(lstat, op_look, (const char* path, struct stat* status), (path, status))
DEFINE_PATH_CALL(lstat64, op_look, (const char* path, struct stat64* status), (path, status))
DEFINE_PATH_CALL(access, op_look, (const char* path, int mode), (path, mode))
DEFINE_PATH_CALL(mkdir, op_make, (const char* path, mode_t mode), (path, mode))
DEFINE_PATH_CALL(unlink, op_remove, (const char* path), (path))
DEFINE_PATH_CALL(rmdir, op_remove, (const char* path), (path))
DEFINE_PATH_CALL(remove, op_remove, (const char* path), (path))
DEFINE_PATH_CALL(rename, op_rename, (const char* path, const char* to), (path, to))
DEFINE_PATH_CALL_AT(fstatat, op_look, (int base, const char* path, struct stat* status, int flags), (base, path, status, flags))
DEFINE_PATH_CALL_AT(fstatat64, op_look, (int base, const char* path, struct stat64* status, int flags), (base, path, status, flags))
DEFINE_PATH_CALL_AT(faccessat, op_look, (int base, const char* path, int mode, int flags), (base, path, mode, flags))
DEFINE_PATH_CALL_AT(statx, op_look, (int base, const char* path, int flags, unsigned mask, struct statx* status), (base, path, flags, mask, status))
DEFINE_PATH_CALL_AT(mkdirat, op_make, (int base, const char* path, mode_t mode), (base, path, mode))
DEFINE_PATH_CALL_AT(unlinkat, op_remove, (int base, const char* path, int flags), (base, path, flags))

DIR* opendir(const char* path) {
    DIR* const stream = REAL(opendir)(path);
    const int folder = folder_of(path);
    note(folder, op_list, 0);
    if (stream != NULL && dirfd(stream) < most_files) folder_of_file[dirfd(stream)] = (unsigned char)folder;
    return stream;
}

DIR* fdopendir(int file) {
    note(folder_behind(file), op_list, 0);
    return REAL(fdopendir)(file);
}

int fsync(int file) {
    note(folder_behind(file), op_flush, 0);
    return REAL(fsync)(file);
}

int fdatasync(int file) {
    note(folder_behind(file), op_flush, 0);
    return REAL(fdatasync)(file);
}

#define DEFINE_TRANSFER(name, operation, parameters, arguments)                   \
    ssize_t name parameters {                                                     \
        const ssize_t bytes = REAL(name) arguments;                               \
        note(folder_behind(file), operation, bytes > 0 ? (uint64_t)bytes : 0);    \
        return bytes;                                                             \
    }
DEFINE_TRANSFER(read, op_read, (int file, void* to, size_t size), (file, to, size))
DEFINE_TRANSFER(pread, op_read, (int file, void* to, size_t size, off_t at), (file, to, size, at))
DEFINE_TRANSFER(pread64, op_read, (int file, void* to, size_t size, off64_t at), (file, to, size, at))
DEFINE_TRANSFER(write, op_write, (int file, const void* from, size_t size), (file, from, size))
DEFINE_TRANSFER(pwrite, op_write, (int file, const void* from, size_t size, off_t at), (file, from, size, at))
DEFINE_TRANSFER(pwrite64, op_write, (int file, const void* from, size_t size, off64_t at), (file, from, size, at))

#define DEFINE_MAP(name, offset)                                                                  \
    void* name(void* where, size_t size, int access, int flags, int file, offset at) {            \
        note(folder_behind(file), op_map, size);                                                  \
        return REAL(name)(where, size, access, flags, file, at);                                  \
    }
DEFINE_MAP(mmap, off_t)
DEFINE_MAP(mmap64, off64_t)

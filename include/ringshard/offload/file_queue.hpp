#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ringshard::offload {

// Number of a read or write under way.
using Operation = uint64_t;

enum class QueueKind { io_uring, threads };

struct FileRequest {
    bool is_write;
    std::byte* memory;
    size_t size;
    int64_t offset;
};

// A file with asynchronous reads and writes. One thread starts them and waits for them. The
// destructor waits for all and closes the file.
class FileQueue {
public:
    virtual ~FileQueue() = default;
    virtual int descriptor() const = 0;
    virtual const char* name() const = 0;
    virtual Operation start(const FileRequest& request) = 0;
    // Waits for an operation, and returns 0 or its errno; EIO if the file ends before the last
    // byte.
    virtual int wait(Operation operation) = 0;
};

// Returns a queue over io_uring; nullptr if the kernel does not offer it (old kernels, containers
// that forbid it).
std::unique_ptr<FileQueue> make_uring_queue(int descriptor);
// Returns a queue of threads that call pread and pwrite, which works everywhere.
std::unique_ptr<FileQueue> make_thread_queue(int descriptor);

}  // namespace ringshard::offload

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

// A file whose reads and writes go on in the background. One thread asks and waits. The destructor
// waits for all and closes the file.
class FileQueue {
public:
    virtual ~FileQueue() = default;
    virtual int descriptor() const = 0;
    virtual const char* name() const = 0;
    virtual Operation start(const FileRequest& request) = 0;
    // 0, or the errno of what went wrong; an end of the file before the last byte is EIO.
    virtual int wait(Operation operation) = 0;
};

// The kernel's own queue; null where it does not offer one (old kernels, containers that forbid
// it).
std::unique_ptr<FileQueue> make_uring_queue(int descriptor);
// Threads that call pread and pwrite: anywhere.
std::unique_ptr<FileQueue> make_thread_queue(int descriptor);

}  // namespace ringshard::offload

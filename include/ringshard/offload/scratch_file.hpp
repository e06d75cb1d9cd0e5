#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ringshard/base/expected.hpp"
#include "ringshard/offload/file_queue.hpp"

namespace ringshard::offload {

// Addresses, sizes and offsets are multiples of a page, as O_DIRECT requires: without it, the page
// cache would keep a copy of offloaded state in host memory.
inline constexpr int64_t page_bytes = 4096;

inline constexpr int64_t whole_pages(int64_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

// A file of this process for offloaded state. It has no name, so nothing remains however the
// process ends. Reads and writes run while the caller computes; a failed one ends the job, since
// its data is lost.
class ScratchFile {
public:
    static Expected<ScratchFile> open(const std::filesystem::path& folder,
                                      QueueKind preferred = QueueKind::io_uring);

    // Returns a file that stores nothing, for the planner: writes are dropped, and reads leave
    // their buffers unchanged.
    static ScratchFile imaginary();

    // Reserves `bytes` (whole pages, zero-filled) and returns their offset. Call allocate() after
    // all reservations; it fails if the file system is too small.
    int64_t reserve(int64_t bytes);
    std::optional<Failure> allocate();
    int64_t bytes() const { return bytes_; }

    // The caller keeps the memory of `bytes` until wait() returns.
    Operation read(std::span<std::byte> bytes, int64_t offset);
    Operation write(std::span<const std::byte> bytes, int64_t offset);
    void wait(Operation operation);

    double seconds_waited() const { return seconds_waited_; }
    std::string describe() const;  // "/scratch, io_uring, past the page cache"

private:
    ScratchFile(std::filesystem::path folder, bool is_direct, std::unique_ptr<FileQueue> queue);

    std::filesystem::path folder_;
    bool is_direct_;
    std::unique_ptr<FileQueue> queue_;  // owns the descriptor
    int64_t bytes_ = 0;
    double seconds_waited_ = 0;
};

}  // namespace ringshard::offload

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

// Addresses, sizes and places in the file are multiples of it, so that the page cache can be left
// out: what leaves memory for a file should not come back as a copy that the system keeps.
inline constexpr int64_t page_bytes = 4096;

inline constexpr int64_t whole_pages(int64_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

// A file of this process for what does not fit its memory. It has no name, so nothing of it is left
// behind, however the process ends. Reads and writes go on while the caller computes; one that
// fails ends the job, since what it carried is lost.
class ScratchFile {
public:
    static Expected<ScratchFile> open(const std::filesystem::path& folder,
                                      QueueKind wish = QueueKind::io_uring);

    // A file that is none: what is written goes nowhere, and what is read is what it was. For
    // asking what a step would take.
    static ScratchFile imaginary();

    // Room for so many bytes, whole pages, zeros until they are written. First everybody asks, then
    // all of it is made at once: it fails where the file system is too small for it.
    int64_t reserve(int64_t bytes);
    std::optional<Failure> allocate();
    int64_t bytes() const { return bytes_; }

    // The memory of `bytes` must stay until wait() has returned.
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

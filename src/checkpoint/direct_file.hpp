#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "ringshard/base/expected.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/offload/file_queue.hpp"
#include "ringshard/offload/staging.hpp"

namespace ringshard::checkpoint {

// A file that is written past the page cache: whole pages leave from memory of ours while the
// caller makes the next ones, and several ranks do not wait for each other's turn at the cache of
// one file. Only ragged ends, and all of it where the file system has no such way, go through the
// cache.
class DirectFile {
public:
    static Expected<DirectFile> open(const std::filesystem::path& file);

    // The size of one write; parts that end at multiples of it are best.
    static constexpr int64_t part_bytes = int64_t{2} << 20;

    // `bytes` may change as soon as this returns. A failure may be of an earlier write.
    std::optional<Failure> write_at(std::span<const std::byte> bytes, int64_t offset);
    // Everything is on disk.
    std::optional<Failure> flush();

private:
    struct Write {
        at::Tensor memory;
        std::span<const std::byte> staged;  // the part of it that is written
        int64_t offset;
        offload::Operation operation;
    };
    std::optional<Failure> start(std::span<const std::byte> pages, int64_t offset);
    std::optional<Failure> end_oldest();

    std::filesystem::path name_;
    File through_cache_;
    offload::Staging staging_;
    std::deque<Write> under_way_;
    std::unique_ptr<offload::FileQueue> past_cache_;  // null where there is no such way
};

}  // namespace ringshard::checkpoint

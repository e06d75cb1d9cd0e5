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

// A file that a rank writes with O_DIRECT: whole pages go out from staging buffers while the caller
// produces the next ones, and ranks do not contend for the page cache of one file. Unaligned ends
// go through the page cache, and so do all bytes if the file system has no O_DIRECT.
class DirectFile {
public:
    static Expected<DirectFile> open(const std::filesystem::path& file);

    // Size of one write; calls whose ranges end at multiples of it are fastest.
    static constexpr int64_t part_bytes = int64_t{2} << 20;

    // `bytes` may change as soon as this returns. A failure may come from an earlier write.
    std::optional<Failure> write_at(std::span<const std::byte> bytes, int64_t offset);
    // Returns when everything is on disk.
    std::optional<Failure> flush();

private:
    struct Write {
        at::Tensor memory;
        std::span<const std::byte> staged;  // the range of `memory` to write
        int64_t offset;
        offload::Operation operation;
    };
    std::optional<Failure> start(std::span<const std::byte> pages, int64_t offset);
    std::optional<Failure> end_oldest();

    std::filesystem::path name_;
    File through_cache_;
    offload::Staging staging_;
    std::deque<Write> under_way_;
    std::unique_ptr<offload::FileQueue> past_cache_;  // nullptr without O_DIRECT
};

}  // namespace ringshard::checkpoint

#include "direct_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ringshard/base/shared_file.hpp"
#include "ringshard/offload/scratch_file.hpp"

namespace ringshard::checkpoint {

using offload::page_bytes;

Expected<DirectFile> DirectFile::open(const std::filesystem::path& file) {
    auto opened = open_when_visible(file, O_WRONLY);  // rank 0 has created it
    if (!opened) return opened.failure();
    DirectFile direct;
    direct.name_ = file;
    direct.through_cache_ = std::move(opened).value();
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
    if (descriptor >= 0) {
        direct.past_cache_ = offload::make_uring_queue(descriptor);
        if (!direct.past_cache_) direct.past_cache_ = offload::make_thread_queue(descriptor);
    }
    return direct;
}

std::optional<Failure> DirectFile::write_at(std::span<const std::byte> bytes, int64_t offset) {
    if (!past_cache_) return through_cache_.write_at(bytes, offset);
    const auto to_next_page = static_cast<size_t>(offload::whole_pages(offset) - offset);
    const size_t head = std::min(bytes.size(), to_next_page);
    const size_t body = (bytes.size() - head) / page_bytes * page_bytes;
    const size_t tail = head + body;
    if (auto failure = through_cache_.write_at(bytes.first(head), offset)) return failure;
    if (auto failure = start(bytes.subspan(head, body), offset + static_cast<int64_t>(head)))
        return failure;
    return through_cache_.write_at(bytes.subspan(tail), offset + static_cast<int64_t>(tail));
}

std::optional<Failure> DirectFile::start(std::span<const std::byte> pages, int64_t offset) {
    constexpr size_t at_a_time = 4;
    while (!pages.empty()) {
        if (under_way_.size() == at_a_time)
            if (auto failure = end_oldest()) return failure;
        const auto part = pages.first(std::min<size_t>(part_bytes, pages.size()));
        const at::Tensor memory = staging_.take(part_bytes, at::kByte);
        std::memcpy(memory.data_ptr(), part.data(), part.size());
        const std::span staged(static_cast<std::byte*>(memory.data_ptr()), part.size());
        const auto operation = past_cache_->start({true, staged.data(), staged.size(), offset});
        under_way_.push_back({memory, staged, offset, operation});
        pages = pages.subspan(part.size());
        offset += static_cast<int64_t>(part.size());
    }
    return std::nullopt;
}

std::optional<Failure> DirectFile::end_oldest() {
    const Write write = std::move(under_way_.front());
    under_way_.pop_front();
    const int error = past_cache_->wait(write.operation);
    if (error == 0) return std::nullopt;
    // Some file systems refuse O_DIRECT only at the write.
    if (error == EINVAL) return through_cache_.write_at(write.staged, write.offset);
    errno = error;
    return io_failure(name_, "cannot be written");
}

std::optional<Failure> DirectFile::flush() {
    while (!under_way_.empty())
        if (auto failure = end_oldest()) return failure;
    return through_cache_.flush();
}

}  // namespace ringshard::checkpoint

#include "ringshard/offload/host_offload_store.hpp"

#include <ATen/ops/empty.h>

#include <sys/mman.h>

#include <algorithm>

#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/offload/scratch_file.hpp"

namespace ringshard::offload {

HostOffloadStore::HostOffloadStore(at::Device device)
    : device_(device), in_(make_side_stream(device)), out_(make_side_stream(device)) {}

HostOffloadStore::~HostOffloadStore() {
    while (!under_way_.empty()) wait(under_way_.begin()->first);
    for (const Piece& piece : pieces_) {
        in_->unpin(piece.memory);
        munmap(piece.memory, static_cast<size_t>(piece.end - piece.begin));
    }
}

int64_t HostOffloadStore::reserve(int64_t bytes) {
    const int64_t begin = reserved_;
    reserved_ += whole_pages(bytes);
    return begin;
}

std::optional<Failure> HostOffloadStore::allocate() {
    const int64_t begin = pieces_.empty() ? 0 : pieces_.back().end;
    if (begin == reserved_) return std::nullopt;
    const auto size = static_cast<size_t>(reserved_ - begin);
    // Fresh from the system, and so zeros.
    void* const memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return Failure{
            ExitCode::settings,
            format_text("the host has no {} of memory left for state offloaded from the GPU",
                        human_bytes(static_cast<double>(size)))};
    in_->pin(memory, size);
    pieces_.push_back({begin, reserved_, static_cast<std::byte*>(memory)});
    return std::nullopt;
}

at::Tensor HostOffloadStore::staging_buffer(int64_t elements, at::ScalarType type) {
    return at::empty({elements}, at::TensorOptions(device_).dtype(type));
}

// Calls copy(host memory, buffer memory, bytes) for each piece that the range overlaps.
template <class Copy>
Transfer HostOffloadStore::start(const at::Tensor& buffer, int64_t bytes, int64_t offset,
                                 Copy copy) {
    RINGSHARD_CHECK(buffer.is_contiguous() && static_cast<int64_t>(buffer.nbytes()) >= bytes &&
                    (pieces_.empty() ? 0 : pieces_.back().end) >= offset + bytes);
    auto* const numbers = static_cast<std::byte*>(buffer.data_ptr());
    for (const Piece& piece : pieces_) {
        const int64_t begin = std::max(offset, piece.begin);
        const int64_t end = std::min(offset + bytes, piece.end);
        if (begin < end)
            copy(piece.memory + (begin - piece.begin), numbers + (begin - offset),
                 static_cast<size_t>(end - begin));
    }
    return ++last_;
}

Transfer HostOffloadStore::read(const at::Tensor& buffer, int64_t bytes, int64_t offset) {
    in_->begin();
    const Transfer transfer = start(
        buffer, bytes, offset,
        [&](std::byte* host, std::byte* numbers, size_t size) { in_->copy(numbers, host, size); });
    under_way_.emplace(transfer, std::pair(in_.get(), Staged{in_->mark(), buffer}));
    return transfer;
}

Transfer HostOffloadStore::write(const at::Tensor& buffer, int64_t bytes, int64_t offset) {
    out_->begin();
    const Transfer transfer = start(
        buffer, bytes, offset,
        [&](std::byte* host, std::byte* numbers, size_t size) { out_->copy(host, numbers, size); });
    under_way_.emplace(transfer, std::pair(out_.get(), Staged{out_->mark(), buffer}));
    return transfer;
}

void HostOffloadStore::wait(Transfer transfer) {
    const auto found = under_way_.extract(transfer);
    RINGSHARD_CHECK(found, "transfer {} was waited for", transfer);
    const auto& [stream, staged] = found.mapped();
    stream->wait(staged.mark);
}

}  // namespace ringshard::offload

#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ringshard/offload/offload_store.hpp"

namespace ringshard::offload {

// Copies between device and host memory while the device computes: on CUDA, a stream of its own.
class SideStream {
public:
    virtual ~SideStream() = default;
    // Pins host memory until unpin(), so that copies run asynchronously. Prints a warning if the
    // system refuses; copies are then slow. unpin() waits for all copies.
    virtual void pin(void* memory, size_t bytes) = 0;
    virtual void unpin(void* memory) = 0;
    // Makes later copies wait for all work that the device's current stream holds so far.
    virtual void begin() = 0;
    virtual void copy(void* into, const void* from, size_t bytes) = 0;
    // Marks the end of the copies so far. wait() makes the device's later work wait for a mark.
    using Mark = uint64_t;
    virtual Mark mark() = 0;
    virtual void wait(Mark mark) = 0;
};

// Makes a stream for a GPU. On the CPU, copies are done when copy() returns.
std::unique_ptr<SideStream> make_side_stream(at::Device device);

// An offload store in host memory, for ranks that compute on a GPU.
class HostOffloadStore final : public OffloadStore {
public:
    explicit HostOffloadStore(at::Device device);
    ~HostOffloadStore() override;

    int64_t reserve(int64_t bytes) override;
    std::optional<Failure> allocate() override;
    int64_t bytes() const override { return reserved_; }
    at::Tensor staging_buffer(int64_t elements, at::ScalarType type) override;
    void release_free_buffers() override {}  // the device's allocator keeps them
    Transfer read(const at::Tensor& buffer, int64_t bytes, int64_t offset) override;
    Transfer write(const at::Tensor& buffer, int64_t bytes, int64_t offset) override;
    void wait(Transfer transfer) override;
    std::string describe() const override { return "the memory of the host"; }

private:
    // Memory of one allocate(). Later calls add pieces and do not move earlier ones.
    struct Piece {
        int64_t begin;
        int64_t end;
        std::byte* memory;
    };
    struct Staged {
        SideStream::Mark mark;
        at::Tensor numbers;  // keeps the buffer alive until wait()
    };
    template <class Copy>
    Transfer start(const at::Tensor& buffer, int64_t bytes, int64_t offset, Copy copy);

    at::Device device_;
    std::unique_ptr<SideStream> in_;  // two streams, since copies run in both directions at once
    std::unique_ptr<SideStream> out_;
    std::vector<Piece> pieces_;
    int64_t reserved_ = 0;
    Transfer last_ = 0;
    std::map<Transfer, std::pair<SideStream*, Staged>> under_way_;
};

}  // namespace ringshard::offload

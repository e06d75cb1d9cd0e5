#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ringshard/offload/offload_store.hpp"

namespace ringshard::offload {

// Copies between the memory of a device and the host's, beside what the device computes.
class SideStream {
public:
    virtual ~SideStream() = default;
    // Memory of the host that the device can reach by itself, until it is let go; where the system
    // does not allow it, copies are slow. To let it go waits for all copies.
    virtual void pin(void* memory, size_t bytes) = 0;
    virtual void unpin(void* memory) = 0;
    // After everything that the device was given so far.
    virtual void begin() = 0;
    virtual void copy(void* into, const void* from, size_t bytes) = 0;
    // A mark behind the copies so far; what the device is given after wait() comes after it.
    using Mark = uint64_t;
    virtual Mark mark() = 0;
    virtual void wait(Mark mark) = 0;
};

// On the CPU, copies are made at once.
std::unique_ptr<SideStream> make_side_stream(at::Device device);

// An offload store in the memory of the host, for ranks that compute on a GPU.
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
    // It grows by pieces, and what lies there stays.
    struct Piece {
        int64_t begin;
        int64_t end;
        std::byte* memory;
    };
    struct Staged {
        SideStream::Mark mark;
        at::Tensor numbers;  // kept until the device's work is behind the transfer
    };
    template <class Copy>
    Transfer start(const at::Tensor& buffer, int64_t bytes, int64_t offset, Copy copy);

    at::Device device_;
    std::unique_ptr<SideStream> in_;  // two, for they go both ways at once
    std::unique_ptr<SideStream> out_;
    std::vector<Piece> pieces_;
    int64_t reserved_ = 0;
    Transfer last_ = 0;
    std::map<Transfer, std::pair<SideStream*, Staged>> under_way_;
};

}  // namespace ringshard::offload

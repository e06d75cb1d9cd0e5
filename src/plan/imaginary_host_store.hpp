#pragma once

#include <ATen/ops/empty.h>

#include "ringshard/offload/offload_store.hpp"
#include "ringshard/offload/scratch_file.hpp"

namespace ringshard::plan {

// The host memory beside an imaginary GPU: counts the bytes that would be offloaded there. Its
// staging buffers are on the GPU, as those of offload::HostOffloadStore.
class ImaginaryHostStore final : public offload::OffloadStore {
public:
    int64_t reserve(int64_t bytes) override {
        const int64_t begin = bytes_;
        bytes_ += offload::whole_pages(bytes);
        return begin;
    }
    std::optional<Failure> allocate() override { return std::nullopt; }
    int64_t bytes() const override { return bytes_; }
    at::Tensor staging_buffer(int64_t elements, at::ScalarType type) override {
        return at::empty({elements}, at::TensorOptions(at::kMeta).dtype(type));
    }
    void release_free_buffers() override {}
    offload::Transfer read(const at::Tensor&, int64_t, int64_t) override { return 0; }
    offload::Transfer write(const at::Tensor&, int64_t, int64_t) override { return 0; }
    void wait(offload::Transfer) override {}
    std::string describe() const override { return "the memory of the host"; }

private:
    int64_t bytes_ = 0;
};

}  // namespace ringshard::plan

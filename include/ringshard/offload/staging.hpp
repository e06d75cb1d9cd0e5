#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

namespace ringshard::offload {

// A pool of page-aligned staging buffers for file transfers. A buffer returns to the pool with its
// tensor. Copies of a Staging share one pool.
class Staging {
public:
    // On the meta device, tensors have sizes but no memory.
    explicit Staging(at::Device device = at::kCPU);
    // Returns an uninitialized tensor.
    at::Tensor take(int64_t elements, at::ScalarType type);
    // Frees the buffers that no tensor holds. Call before taking buffers of other sizes.
    void release_free();
    int64_t bytes() const;  // in tensors and in the pool

private:
    struct Pages;
    std::shared_ptr<Pages> pages_;
};

// Returns a tensor of Staging with the rest of its last page.
std::span<std::byte> pages_of(const at::Tensor& staged);

}  // namespace ringshard::offload

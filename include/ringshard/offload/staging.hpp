#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

namespace ringshard::offload {

// Memory for what is on its way to and from a file: whole pages, used again when a tensor is done
// with them. Copies of a Staging share it.
class Staging {
public:
    // On meta: sizes without memory.
    explicit Staging(at::Device device = at::kCPU);
    // Numbers as the memory has them.
    at::Tensor take(int64_t elements, at::ScalarType type);
    // Gives free memory back to the system: for those who ask for other sizes from now on.
    void release_free();
    int64_t bytes() const;  // of all that is held, by tensors or for the next ones

private:
    struct Pages;
    std::shared_ptr<Pages> pages_;
};

// A tensor of Staging with the rest of its last page.
std::span<std::byte> pages_of(const at::Tensor& staged);

}  // namespace ringshard::offload

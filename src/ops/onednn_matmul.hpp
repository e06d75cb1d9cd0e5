#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "ringshard/base/expected.hpp"

// oneDNN's products of matrices. Its header is kept out of here: LibTorch ships the header of the
// oneDNN that is hidden inside it, which is another version.
namespace ringshard::ops {

struct StridedMatrix {
    void* data;
    std::array<int64_t, 2> sizes;
    std::array<int64_t, 2> strides;  // in elements
    bool is_bf16;                    // else fp32
};

class OnednnMatmul {
public:
    // Loads the library.
    static Expected<std::unique_ptr<OnednnMatmul>> open();

    virtual ~OnednnMatmul() = default;
    OnednnMatmul(const OnednnMatmul&) = delete;
    OnednnMatmul& operator=(const OnednnMatmul&) = delete;

    virtual std::string version() const = 0;
    // False where oneDNN has no product of bf16 for this processor.
    virtual bool has_bf16() const = 0;
    // c = a b + bias. bias: one row of a's type, or null.
    virtual void multiply(const StridedMatrix& c, const StridedMatrix& a, const StridedMatrix& b,
                          void* bias) = 0;
    // c += a b
    virtual void add_product(const StridedMatrix& c, const StridedMatrix& a,
                             const StridedMatrix& b) = 0;
    // Products that oneDNN has compiled for their shapes and strides and that are kept for the next
    // call; bounded.
    virtual size_t num_kept() const = 0;

protected:
    OnednnMatmul() = default;
};

}  // namespace ringshard::ops

#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringshard/ops/gemm.hpp"

// The choice of kernels for the products of a GPU, by time.
namespace ringshard::ops {

// A product of a linear layer in bf16, whose weight is [out, in], for so many tokens.
struct LayerProduct {
    GemmPass pass;
    int64_t tokens;
    int64_t out;
    int64_t in;
    auto operator<=>(const LayerProduct&) const = default;
};
std::string name_of(const LayerProduct& product);  // "forward 65536 tokens 896x4864"

// The kernels that a library has for a product, numbered from its own choice on.
class ProductKernels {
public:
    virtual ~ProductKernels() = default;
    virtual std::string gpu() const = 0;
    virtual std::string library() const = 0;  // with its version
    virtual int64_t count(const LayerProduct& product) = 0;
    // Times a kernel for a product, now. The calls for a product follow each other.
    virtual double seconds(const LayerProduct& product, int64_t kernel) = 0;
    // Makes this kernel take all products of the kind from now on.
    virtual void take(const LayerProduct& product, int64_t kernel) = 0;
};

// Those of the current GPU, for the layers that compute with these Gemms.
std::unique_ptr<ProductKernels> open_product_kernels(const Gemms& gemms);

// A product below 10^13 operations: larger ones fill a GPU with any kernel, and take long to time.
bool is_worth_timing(const LayerProduct& product);

// The shortest time of each of the first `count` kernels, which take turns.
std::vector<double> time_kernels(ProductKernels& kernels, const LayerProduct& product,
                                 int64_t count);

// The fastest kernel; the first one, unless another needs less than 97 % of its time.
int64_t fastest_kernel(std::span<const double> seconds);

}  // namespace ringshard::ops

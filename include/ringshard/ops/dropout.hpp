#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ringshard::ops {

// The dropped elements of a matrix [t, n]: a function of the token's key, the salt and the
// column, and so the same wherever the token is computed.
struct DropoutMask {
    at::Tensor keys;  // [t] int64, of random bits
    uint64_t salt = 0;
    double probability = 0;
};

// Returns x with the dropped elements 0 and the others divided by 1 - probability. The same of a
// gradient is its backward pass.
at::Tensor dropout(const at::Tensor& x, const DropoutMask& mask);
// into += dropout(x).
void add_dropout(const at::Tensor& into, const at::Tensor& x, const DropoutMask& mask);
// Both with one mask: returns dropout(x), and into += dropout(added).
at::Tensor dropout_and_add(const at::Tensor& x, const at::Tensor& into, const at::Tensor& added,
                           const DropoutMask& mask);

// Adds to the rows of x [t, n] uniform noise within [-bounds, bounds), a function of the token's
// key, the salt and the column. bounds [t] fp32.
void add_noise(const at::Tensor& x, const at::Tensor& keys, uint64_t salt,
               const at::Tensor& bounds);

}  // namespace ringshard::ops

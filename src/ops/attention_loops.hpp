#pragma once

#include "attention_backward.hpp"
#include "attention_forward.hpp"

// Both passes with the products of a class M (vector_products.hpp), as a table.
namespace ringshard::ops {
namespace {

template <class M>
int64_t forward_bytes(int64_t group, int64_t count, int64_t width) {
    return ForwardMemory<M>(nullptr, group, count, width).bytes;
}
template <class M>
int64_t backward_bytes(int64_t group, int64_t count, int64_t width) {
    return BackwardMemory<M>(nullptr, group, count, width).bytes;
}

template <auto a, auto b>
int64_t greater_bytes(int64_t group, int64_t count, int64_t width) {
    return greatest(a(group, count, width), b(group, count, width));
}

// OfFp32 for numbers of fp32, OfBf16 for those of bf16.
template <class OfFp32, class OfBf16>
constexpr AttentionKernels attention_kernels_of() {
    return {greater_bytes<forward_bytes<OfFp32>, forward_bytes<OfBf16>>,
            greater_bytes<backward_bytes<OfFp32>, backward_bytes<OfBf16>>,
            forward<OfFp32, float>,
            forward<OfBf16, uint16_t>,
            backward<OfFp32, float>,
            backward<OfBf16, uint16_t>};
}

}  // namespace
}  // namespace ringshard::ops

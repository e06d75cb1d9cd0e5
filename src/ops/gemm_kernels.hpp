#pragma once

#include <cstdint>

// Products of two matrices on one thread, as a table of kernels for each kind of processor. Such a
// file, and this header, use nothing that another file may also compile (attention_kernels.hpp).
namespace ringshard::ops {

// Its rows lie `stride` numbers apart, or its columns where it is transposed.
template <class T>
struct GemmMatrix {
    const T* data;
    int64_t stride;
    bool is_transposed;
};

// a [rows, terms] times b [terms, columns]; bf16 as its 16 bits. The result is either `sums` in
// fp32, or `rounded`; the other one is null.
template <class T>
struct GemmTask {
    int64_t rows;
    int64_t columns;
    int64_t terms;  // at least one
    GemmMatrix<T> a;
    GemmMatrix<T> b;
    const T* bias;  // [columns], or null
    float* sums;
    bool adds;  // to what stands in the result
    T* rounded;
    int64_t result_stride;
};

struct GemmKernels {
    int64_t memory_bytes;  // that a call may use, from an address that 64 divides
    void (*fp32)(const GemmTask<float>&, void* memory);
    void (*bf16)(const GemmTask<uint16_t>&, void* memory);
    // Rows and columns of the tiles in which results are made.
    int64_t tile_rows;
    int64_t tile_columns;
};

}  // namespace ringshard::ops

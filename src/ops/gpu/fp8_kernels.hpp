#pragma once

#include "kernels.hpp"

namespace ringshard::ops::gpu {

enum class Fp8Type { e4m3, e5m2 };

// Rows of codes, and a factor for each row: number = factor * code.
struct Fp8Rows {
    NumberType type;
    Fp8Type into_type;
    const void* x;   // [rows, width]
    uint8_t* codes;  // [rows, width]
    float* factors;  // [rows]
    int64_t rows;
    int64_t width;
};
void quantize_rows(const Queue& queue, const Fp8Rows& work);

// The same for columns: their codes become rows. Sizes are multiples of 16.
struct Fp8Columns {
    NumberType type;
    Fp8Type into_type;
    const void* x;      // [rows, width]
    uint8_t* codes;     // [width, rows]
    float* factors;     // [width]
    uint32_t* largest;  // [num_ranges_of_columns(rows), width]: the bits of magnitudes
    int64_t rows;
    int64_t width;
};
int64_t num_ranges_of_columns(int64_t rows);
void quantize_columns(const Queue& queue, const Fp8Columns& work);

}  // namespace ringshard::ops::gpu

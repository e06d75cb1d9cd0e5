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
    uint32_t* largest;  // [width], 0 at first: becomes the bits of each column's largest magnitude
    int64_t rows;
    int64_t width;
};
void quantize_columns(const Queue& queue, const Fp8Columns& work);
// The same with one factor [1] for all columns, which follows from largest [1], the largest
// magnitude of the matrix.
void quantize_columns_alike(const Queue& queue, const Fp8Columns& work);

// Codes of all numbers, with one factor [1].
struct Fp8Tensor {
    NumberType type;
    Fp8Type into_type;
    const void* x;   // [count]
    uint8_t* codes;  // [count]
    float* factor;
    const uint32_t* largest;  // [1]: the magnitude from which the factor follows; or null, and
    const int32_t* exponent;  // [1]: its scale, with which numbers may go beyond the range
    uint32_t* maximum;        // [1]: rises to the largest magnitude of the counted numbers; or null
    int64_t count;
    int64_t counted;  // the first numbers
};
void quantize_tensor(const Queue& queue, const Fp8Tensor& work);

// maximum [1] rises to the largest magnitude of these numbers, as the bits of fp32.
struct Fp8Maximum {
    NumberType type;
    const void* x;  // [count]
    uint32_t* maximum;
    int64_t count;
};
void raise_maximum(const Queue& queue, const Fp8Maximum& work);

}  // namespace ringshard::ops::gpu

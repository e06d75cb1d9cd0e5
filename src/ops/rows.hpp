#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "number.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/simd.hpp"

// How the CPU operations walk over their rows.
namespace ringshard::ops {

// Rows per task, such that a task is worth a thread.
inline int64_t grain(int64_t elements_per_row) {
    constexpr int64_t elements_per_task = 16384;
    return std::max<int64_t>(1, elements_per_task / std::max<int64_t>(1, elements_per_row));
}

// Calls `work` with a null pointer of the tensor's element type: `[&](auto* type) { using T = ...
// }`.
template <class Work>
void with_type(const at::Tensor& tensor, Work work) {
    if (tensor.scalar_type() == at::kFloat) return work(static_cast<float*>(nullptr));
    RINGSHARD_CHECK(tensor.scalar_type() == at::kBFloat16, "computation in {}",
                    c10::toString(tensor.scalar_type()));
    work(static_cast<bf16*>(nullptr));
}

// Asked for once, before the loop over the rows: asked for in every row, it cost 3 % of a small
// model's step.
template <class Number>
Number* data(const at::Tensor& tensor) {
    RINGSHARD_CHECK(tensor.is_contiguous());
    return static_cast<Number*>(tensor.data_ptr());
}

// Calls `work` for slices of `x` [rows, width] of about so many elements, with a function that cuts
// the rows of the slice out of a tensor [rows, ...].
template <class Work>
void for_slices(const at::Tensor& x, int64_t elements_of_slice, Work work) {
    const int64_t rows = std::max<int64_t>(1, elements_of_slice / x.size(1));
    for (int64_t begin = 0; begin < x.size(0); begin += rows)
        work([begin, length = std::min(rows, x.size(0) - begin)](const at::Tensor& all) {
            return all.narrow(0, begin, length);
        });
}

// Calls work(first, count) for the blocks of a flat buffer.
inline constexpr int64_t elements_of_block = 16384;
template <class Work>
void for_blocks(int64_t count, Work work) {
    const int64_t num_blocks = (count + elements_of_block - 1) / elements_of_block;
    at::parallel_for(0, num_blocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b)
            work(b * elements_of_block, std::min(elements_of_block, count - b * elements_of_block));
    });
}

// Unnamed: each file has the copies for kinds of processors that RINGSHARD_SIMD makes.
namespace {

// Adds a row to a sum of rows.
template <class T>
RINGSHARD_SIMD void add_row(float* __restrict into, const T* __restrict from, int64_t width) {
    for (int64_t i = 0; i < width; ++i) into[i] += load(from[i]);
}

}  // namespace

// Equal ranges of rows, one per thread, always the same for the same number of threads: so sums
// that are formed per range and then added in order come out the same to the bit.
struct RowRange {
    int64_t begin;
    int64_t end;
};
inline RowRange range_of_thread(int64_t thread, int64_t num_threads, int64_t num_rows) {
    return {num_rows * thread / num_threads, num_rows * (thread + 1) / num_threads};
}

// Without a pass over the numbers where it changes none.
inline at::Tensor times(double factor, const at::Tensor& x) { return factor == 1 ? x : x * factor; }

}  // namespace ringshard::ops

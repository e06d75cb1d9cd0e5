#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

template <class T>
RINGSHARD_SIMD void copy_row(float* __restrict into, const T* __restrict from, int64_t width) {
    for (int64_t i = 0; i < width; ++i) into[i] = load(from[i]);
}

// into = sum + from, rounded.
template <class T>
RINGSHARD_SIMD void add_last_row(T* __restrict into, const float* __restrict sum,
                                 const T* __restrict from, int64_t width) {
    for (int64_t i = 0; i < width; ++i) store(into[i], sum[i] + load(from[i]));
}

}  // namespace

at::Tensor take_rows(const at::Tensor& x, const at::Tensor& places) {
    const at::Tensor from = x.contiguous();
    const at::Tensor at_places = places.contiguous();
    std::vector<int64_t> shape = x.sizes().vec();
    shape.front() = places.size(0);
    at::Tensor taken = at::empty(shape, x.options());
    // A tensor of one row may have any stride.
    const int64_t width = c10::multiply_integers(x.sizes().slice(1));
    const auto row_bytes = static_cast<size_t>(width) * x.element_size();
    const auto* const first = static_cast<const std::byte*>(from.const_data_ptr());
    auto* const into = static_cast<std::byte*>(taken.mutable_data_ptr());
    const auto* const place = at_places.const_data_ptr<int64_t>();
    at::parallel_for(0, places.size(0), grain(width), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
            std::memcpy(into + static_cast<size_t>(row) * row_bytes,
                        first + static_cast<size_t>(place[row]) * row_bytes, row_bytes);
    });
    return taken;
}

at::Tensor sum_of_experts(const at::Tensor& rows, const at::Tensor& places) {
    const int64_t width = rows.size(1);
    const int64_t per_token = places.size(1);
    at::Tensor sums = at::empty({places.size(0), width}, rows.options());
    const auto* const place = places.const_data_ptr<int64_t>();
    with_type(rows, [&]<class T>(T*) {
        const T* const first = data<T>(rows);
        T* const into = data<T>(sums);
        at::parallel_for(0, places.size(0), grain(per_token * width),
                         [&](int64_t begin, int64_t end) {
                             std::vector<float> sum(static_cast<size_t>(width));
                             for (int64_t token = begin; token < end; ++token) {
                                 const int64_t* const of_token = place + token * per_token;
                                 if (per_token == 1) std::ranges::fill(sum, 0.0F);
                                 if (per_token > 1)
                                     copy_row(sum.data(), first + of_token[0] * width, width);
                                 for (int64_t choice = 1; choice + 1 < per_token; ++choice)
                                     add_row(sum.data(), first + of_token[choice] * width, width);
                                 add_last_row(into + token * width, sum.data(),
                                              first + of_token[per_token - 1] * width, width);
                             }
                         });
    });
    return sums;
}

}  // namespace ringshard::ops::cpu

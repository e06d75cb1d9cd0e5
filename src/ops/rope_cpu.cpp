#include <ATen/ops/empty.h>

#include <cmath>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/rope.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

template <class T>
RINGSHARD_INLINE void turn_pair(T& first, T& second, float cosine, float sine) {
    const float a = load(first);
    const float b = load(second);
    store(first, a * cosine - b * sine);
    store(second, b * cosine + a * sine);
}

// Compilers cut the loop into 32 numbers of bf16, or 16 of fp32, and take the rest one by one:
// a head whose half has fewer numbers gets a loop of its own.
template <class T>
RINGSHARD_SIMD void turn_heads(T* __restrict heads, const float* __restrict cosine,
                               const float* __restrict sine, float sign, int64_t half,
                               int64_t head_dim, int64_t num_heads) {
    constexpr int64_t whole = 64 / sizeof(T);
    for (int64_t h = 0; h < num_heads; ++h) {
        T* __restrict first = heads + h * head_dim;
        T* __restrict second = first + half;
        if (half >= whole) {
            for (int64_t i = 0; i < half; ++i)
                turn_pair(first[i], second[i], cosine[i], sign * sine[i]);
        } else {
#pragma omp simd simdlen(8)
            for (int64_t i = 0; i < half; ++i)
                turn_pair(first[i], second[i], cosine[i], sign * sine[i]);
        }
    }
}

template <class T>
RINGSHARD_SIMD void turn_interleaved_heads(T* __restrict heads, const float* __restrict cosine,
                                           const float* __restrict sine, float sign, int64_t half,
                                           int64_t head_dim, int64_t num_heads) {
    for (int64_t h = 0; h < num_heads; ++h) {
        T* __restrict head = heads + h * head_dim;
        for (int64_t i = 0; i < half; ++i)
            turn_pair(head[2 * i], head[2 * i + 1], cosine[i], sign * sine[i]);
    }
}

}  // namespace

RopeTable make_rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies,
                          double scale) {
    const int64_t tokens = positions.numel();
    const int64_t half = inverse_frequencies.numel();
    RopeTable table{at::empty({tokens, half}, inverse_frequencies.options()),
                    at::empty({tokens, half}, inverse_frequencies.options())};
    at::parallel_for(0, tokens, grain(16 * half), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            const auto position = static_cast<float>(data<int64_t>(positions)[t]);
            for (int64_t i = 0; i < half; ++i) {
                const float angle = position * data<float>(inverse_frequencies)[i];
                data<float>(table.cosine)[t * half + i] =
                    std::cos(angle) * static_cast<float>(scale);
                data<float>(table.sine)[t * half + i] = std::sin(angle) * static_cast<float>(scale);
            }
        }
    });
    return table;
}

void rope(const at::Tensor& heads, int64_t num_heads, const RopeTable& table, Turn turn) {
    const int64_t row = heads.size(1);
    const int64_t half = table.cosine.size(1);
    const int64_t head_dim = table.head_width();
    const float sign = turn == Turn::forward ? 1.0F : -1.0F;
    RINGSHARD_CHECK(2 * half <= head_dim && num_heads * head_dim <= row &&
                    table.cosine.size(0) == heads.size(0));
    const float* const cosine = data<float>(table.cosine);
    const float* const sine = data<float>(table.sine);
    with_type(heads, [&]<class T>(T*) {
        T* const all_heads = data<T>(heads);
        const auto turn_row = table.is_interleaved ? turn_interleaved_heads<T> : turn_heads<T>;
        at::parallel_for(0, heads.size(0), grain(num_heads * 2 * half),
                         [&](int64_t begin, int64_t end) {
                             for (int64_t t = begin; t < end; ++t)
                                 turn_row(all_heads + t * row, cosine + t * half, sine + t * half,
                                          sign, half, head_dim, num_heads);
                         });
    });
}

}  // namespace ringshard::ops::cpu

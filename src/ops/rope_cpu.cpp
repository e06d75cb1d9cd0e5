#include <ATen/ops/empty.h>

#include <cmath>

#include "ringshard/base/simd.hpp"
#include "ringshard/ops/rope.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

template <class T>
RINGSHARD_SIMD void turn_head(T* __restrict head, const float* __restrict cosine,
                              const float* __restrict sine, float sign, int64_t half) {
    for (int64_t i = 0; i < half; ++i) {
        const float a = load(head[i]);
        const float b = load(head[i + half]);
        store(head[i], a * cosine[i] - sign * b * sine[i]);
        store(head[i + half], b * cosine[i] + sign * a * sine[i]);
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
    const float sign = turn == Turn::forward ? 1.0F : -1.0F;
    RINGSHARD_CHECK(num_heads * 2 * half <= row && table.cosine.size(0) == heads.size(0));
    with_type(heads, [&]<class T>(T*) {
        at::parallel_for(0, heads.size(0), grain(num_heads * 2 * half),
                         [&](int64_t begin, int64_t end) {
                             for (int64_t t = begin; t < end; ++t)
                                 for (int64_t h = 0; h < num_heads; ++h)
                                     turn_head(data<T>(heads) + t * row + h * 2 * half,
                                               data<float>(table.cosine) + t * half,
                                               data<float>(table.sine) + t * half, sign, half);
                         });
    });
}

}  // namespace ringshard::ops

#include <cmath>
#include <vector>

#include "ringshard/base/simd.hpp"
#include "ringshard/ops/flat.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

constexpr int64_t block = 16384;

RINGSHARD_SIMD float squares(const float* __restrict x, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
    return sum;
}

template <class To, class From>
RINGSHARD_SIMD void cast_block(To* __restrict into, const From* __restrict from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) store(into[i], load(from[i]));
}

template <class From>
RINGSHARD_SIMD void add_block(float* __restrict into, const From* __restrict from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) into[i] += load(from[i]);
}

struct Factors {
    float gradient;
    float decay;
    float first_keeps, first_takes;
    float second_keeps, second_takes;
    float step_size;
    float root_scale;
    float epsilon;
};

RINGSHARD_INLINE float adamw_element(float& w, float& m, float& v, float& g, const Factors& f) {
    const float gradient = g * f.gradient;
    const float first = m * f.first_keeps + gradient * f.first_takes;
    const float second = v * f.second_keeps + gradient * gradient * f.second_takes;
    m = first;
    v = second;
    g = 0;
    w = w * f.decay - f.step_size * first / (__builtin_sqrtf(second) * f.root_scale + f.epsilon);
    return w;
}

RINGSHARD_SIMD void adamw_block(float* __restrict w, float* __restrict m, float* __restrict v,
                                float* __restrict g, Factors f, int64_t count) {
    for (int64_t i = 0; i < count; ++i) adamw_element(w[i], m[i], v[i], g[i], f);
}

RINGSHARD_SIMD void adamw_block_with_copy(float* __restrict w, float* __restrict m,
                                          float* __restrict v, float* __restrict g,
                                          bf16* __restrict copy, Factors f, int64_t count) {
    for (int64_t i = 0; i < count; ++i) store(copy[i], adamw_element(w[i], m[i], v[i], g[i], f));
}

template <class Work>
void for_blocks(int64_t count, Work work) {
    const int64_t num_blocks = (count + block - 1) / block;
    at::parallel_for(0, num_blocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) work(b * block, std::min(block, count - b * block));
    });
}

}  // namespace

double sum_of_squares(const at::Tensor& flat) {
    std::vector<double> of_block(static_cast<size_t>((flat.numel() + block - 1) / block));
    for_blocks(flat.numel(), [&](int64_t begin, int64_t count) {
        of_block[static_cast<size_t>(begin / block)] =
            static_cast<double>(squares(data<float>(flat) + begin, count));
    });
    double sum = 0;
    for (const double part : of_block) sum += part;
    return sum;
}

void cast(const at::Tensor& into, const at::Tensor& from) {
    RINGSHARD_CHECK(into.numel() == from.numel());
    with_type(into, [&]<class To>(To*) {
        with_type(from, [&]<class From>(From*) {
            for_blocks(into.numel(), [&](int64_t begin, int64_t count) {
                cast_block(data<To>(into) + begin, data<From>(from) + begin, count);
            });
        });
    });
}

void add(const at::Tensor& into, const at::Tensor& from) {
    RINGSHARD_CHECK(into.numel() == from.numel());
    with_type(from, [&]<class From>(From*) {
        for_blocks(into.numel(), [&](int64_t begin, int64_t count) {
            add_block(data<float>(into) + begin, data<From>(from) + begin, count);
        });
    });
}

void adamw(const AdamWBuffers& buffers, const AdamWStep& step) {
    const auto count = static_cast<double>(step.step);
    const double first_bias = 1 - std::pow(step.beta1, count);
    const double second_bias = 1 - std::pow(step.beta2, count);
    const Factors factors{static_cast<float>(step.gradient_scale),
                          static_cast<float>(1 - step.learning_rate * step.weight_decay),
                          static_cast<float>(step.beta1),
                          static_cast<float>(1 - step.beta1),
                          static_cast<float>(step.beta2),
                          static_cast<float>(1 - step.beta2),
                          static_cast<float>(step.learning_rate / first_bias),
                          static_cast<float>(1 / std::sqrt(second_bias)),
                          static_cast<float>(step.epsilon)};
    float* const w = data<float>(buffers.weights);
    float* const m = data<float>(buffers.first_moment);
    float* const v = data<float>(buffers.second_moment);
    float* const g = data<float>(buffers.gradient);
    bf16* const copy = buffers.copy.defined() ? data<bf16>(buffers.copy) : nullptr;
    for_blocks(buffers.weights.numel(), [&](int64_t i, int64_t length) {
        if (copy == nullptr)
            adamw_block(w + i, m + i, v + i, g + i, factors, length);
        else
            adamw_block_with_copy(w + i, m + i, v + i, g + i, copy + i, factors, length);
    });
}

}  // namespace ringshard::ops

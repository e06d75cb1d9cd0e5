#include <ATen/ops/zeros.h>

#include <cmath>
#include <vector>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/flat.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

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

struct ScheduleFreeFactors {
    float gradient;
    float decay;
    float second_keeps, second_takes;
    float root_scale;
    float epsilon;
    float step_size;
    float average;
    float ahead;
};

// d: z - x. v: a null pointer without a second moment. g: a null pointer where nothing but the copy
// changes.
template <class Copy>
RINGSHARD_SIMD void schedule_free_block(float* __restrict w, float* __restrict d,
                                        float* __restrict v, const float* __restrict g,
                                        Copy* __restrict copy, ScheduleFreeFactors f,
                                        int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        float average = w[i];
        float difference = d[i];
        if (g != nullptr) {
            const float gradient = g[i] * f.gradient;
            float direction = gradient;
            if (v != nullptr) {
                v[i] = v[i] * f.second_keeps + gradient * gradient * f.second_takes;
                direction = gradient / (__builtin_sqrtf(v[i]) * f.root_scale + f.epsilon);
            }
            direction += f.decay * (average + f.ahead * difference);
            const float reached = difference - f.step_size * direction;
            average += f.average * reached;
            difference = reached - f.average * reached;
            w[i] = average;
            d[i] = difference;
        }
        store(copy[i], average + f.ahead * difference);
    }
}

}  // namespace

at::Tensor sum_of_squares(const at::Tensor& flat) {
    at::Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
    std::vector<double> of_block(
        static_cast<size_t>((flat.numel() + elements_of_block - 1) / elements_of_block));
    for_blocks(flat.numel(), [&](int64_t begin, int64_t count) {
        of_block[static_cast<size_t>(begin / elements_of_block)] =
            static_cast<double>(squares(data<float>(flat) + begin, count));
    });
    for (const double part : of_block) *sum.mutable_data_ptr<double>() += part;
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

void schedule_free(const ScheduleFreeBuffers& buffers, const ScheduleFreeStep& step) {
    const double second_bias = 1 - std::pow(step.beta2, static_cast<double>(step.step));
    const ScheduleFreeFactors factors{static_cast<float>(step.gradient_scale),
                                      static_cast<float>(step.weight_decay),
                                      static_cast<float>(step.beta2),
                                      static_cast<float>(1 - step.beta2),
                                      static_cast<float>(1 / std::sqrt(second_bias)),
                                      static_cast<float>(step.epsilon),
                                      static_cast<float>(step.learning_rate),
                                      static_cast<float>(step.average),
                                      static_cast<float>(1 - step.beta1)};
    float* const w = data<float>(buffers.weights);
    float* const d = data<float>(buffers.difference);
    float* const v = buffers.second_moment.defined() ? data<float>(buffers.second_moment) : nullptr;
    const float* const g = buffers.gradient.defined() ? data<float>(buffers.gradient) : nullptr;
    with_type(buffers.copy, [&]<class Copy>(Copy*) {
        Copy* const copy = data<Copy>(buffers.copy);
        for_blocks(buffers.weights.numel(), [&](int64_t i, int64_t length) {
            schedule_free_block(w + i, d + i, v == nullptr ? v : v + i, g == nullptr ? g : g + i,
                                copy + i, factors, length);
        });
    });
}

}  // namespace ringshard::ops::cpu

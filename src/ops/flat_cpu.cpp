#include <ATen/ops/zeros.h>

#include <bit>
#include <cmath>
#include <vector>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/flat.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

constexpr int64_t block_elements = 16384;

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

// 32 bits that look random, of a place and a step.
RINGSHARD_INLINE uint32_t mixed(uint32_t place, uint32_t step) {
    uint32_t bits = place * 0x9e3779b9U ^ step;
    bits = (bits ^ bits >> 16) * 0x85ebca6bU;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35U;
    return bits ^ bits >> 16;
}

RINGSHARD_INLINE void store_moment(float& place, float value, uint32_t) { place = value; }
// chance: 16 random bits. Rounds up if the bits that are cut off exceed them.
RINGSHARD_INLINE void store_moment(bf16& place, float value, uint32_t chance) {
    place.x = static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + chance) >> 16);
}

RINGSHARD_INLINE void store_copy(float*, int64_t, float) {}  // the weights themselves are used
RINGSHARD_INLINE void store_copy(bf16* copy, int64_t i, float value) { store(copy[i], value); }

// copy: of bf16, or a null pointer of float.
template <class Moment, class Copy>
RINGSHARD_SIMD void adamw_block(float* __restrict w, Moment* __restrict m, Moment* __restrict v,
                                const float* __restrict g, Copy* __restrict copy, Factors f,
                                uint32_t place, uint32_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const float gradient = g[i] * f.gradient;
        const float first = load(m[i]) * f.first_keeps + gradient * f.first_takes;
        const float second = load(v[i]) * f.second_keeps + gradient * gradient * f.second_takes;
        const uint32_t chance = mixed(place + static_cast<uint32_t>(i), step);
        store_moment(m[i], first, chance & 0xffffU);
        store_moment(v[i], second, chance >> 16);
        w[i] = w[i] * f.decay -
               f.step_size * first / (__builtin_sqrtf(second) * f.root_scale + f.epsilon);
        store_copy(copy, i, w[i]);
    }
}

struct LionFactors {
    float gradient;
    float decay;
    float direction_keeps, direction_takes;
    float moment_keeps, moment_takes;
    float step_size;
};

RINGSHARD_INLINE float sign_of(float value) {
    return static_cast<float>(value > 0) - static_cast<float>(value < 0);
}

// copy: of bf16, or a null pointer of float.
template <class Moment, class Copy>
RINGSHARD_SIMD void lion_block(float* __restrict w, Moment* __restrict m, const float* __restrict g,
                               Copy* __restrict copy, LionFactors f, uint32_t place, uint32_t step,
                               int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const float gradient = g[i] * f.gradient;
        const float moment = load(m[i]);
        const float direction = sign_of(moment * f.direction_keeps + gradient * f.direction_takes);
        store_moment(m[i], moment * f.moment_keeps + gradient * f.moment_takes,
                     mixed(place + static_cast<uint32_t>(i), step) & 0xffffU);
        w[i] = w[i] * f.decay - f.step_size * direction;
        store_copy(copy, i, w[i]);
    }
}

struct RmspropFactors {
    float gradient;
    float decay;
    float keeps, takes;
    float epsilon;
    float step_size;
};

// copy: of bf16, or a null pointer of float.
template <class Moment, class Copy>
RINGSHARD_SIMD void rmsprop_block(float* __restrict w, Moment* __restrict v,
                                  const float* __restrict g, Copy* __restrict copy,
                                  RmspropFactors f, uint32_t place, uint32_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const float gradient = g[i] * f.gradient + w[i] * f.decay;
        const float mean = load(v[i]) * f.keeps + gradient * gradient * f.takes;
        store_moment(v[i], mean, mixed(place + static_cast<uint32_t>(i), step) & 0xffffU);
        w[i] -= f.step_size * gradient / (__builtin_sqrtf(mean) + f.epsilon);
        store_copy(copy, i, w[i]);
    }
}

struct SgdFactors {
    float gradient;
    float decay;
    float momentum_keeps, momentum_takes;
    bool nesterov;
    float step_size;
};

// m: a null pointer without momentum. copy: of bf16, or a null pointer of float.
template <class Moment, class Copy>
RINGSHARD_SIMD void sgd_block(float* __restrict w, Moment* __restrict m, const float* __restrict g,
                              Copy* __restrict copy, SgdFactors f, uint32_t place, uint32_t step,
                              int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const float gradient = g[i] * f.gradient + w[i] * f.decay;
        const float before = m == nullptr ? 0.0F : load(m[i]);
        const float sum = before * f.momentum_keeps + gradient * f.momentum_takes;
        if (m != nullptr)
            store_moment(m[i], sum, mixed(place + static_cast<uint32_t>(i), step) & 0xffffU);
        w[i] -= f.step_size * (f.nesterov ? gradient + f.momentum_keeps * sum : sum);
        store_copy(copy, i, w[i]);
    }
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

template <class Work>
void for_blocks(int64_t count, Work work) {
    const int64_t num_blocks = (count + block_elements - 1) / block_elements;
    at::parallel_for(0, num_blocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b)
            work(b * block_elements, std::min(block_elements, count - b * block_elements));
    });
}

}  // namespace

at::Tensor sum_of_squares(const at::Tensor& flat) {
    at::Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
    std::vector<double> of_block(
        static_cast<size_t>((flat.numel() + block_elements - 1) / block_elements));
    for_blocks(flat.numel(), [&](int64_t begin, int64_t count) {
        of_block[static_cast<size_t>(begin / block_elements)] =
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
    const float* const g = data<float>(buffers.gradient);
    const auto update = [&]<class Moment, class Copy>(Moment* m, Moment* v, Copy* copy) {
        for_blocks(buffers.weights.numel(), [&](int64_t i, int64_t length) {
            adamw_block(w + i, m + i, v + i, g + i, copy == nullptr ? copy : copy + i, factors,
                        static_cast<uint32_t>(buffers.first_place + i),
                        static_cast<uint32_t>(step.step), length);
        });
    };
    with_type(buffers.first_moment, [&]<class Moment>(Moment*) {
        auto* const m = data<Moment>(buffers.first_moment);
        auto* const v = data<Moment>(buffers.second_moment);
        if (buffers.copy.defined())
            update(m, v, data<bf16>(buffers.copy));
        else
            update(m, v, static_cast<float*>(nullptr));
    });
}

namespace {

// Calls work(weights, moment, gradient, copy, place, count) for blocks of the range.
template <class Work>
void with_one_moment(const LionBuffers& buffers, Work work) {
    float* const w = data<float>(buffers.weights);
    const float* const g = data<float>(buffers.gradient);
    const auto update = [&]<class Moment, class Copy>(Moment* m, Copy* copy) {
        for_blocks(buffers.weights.numel(), [&](int64_t i, int64_t length) {
            work(w + i, m + i, g + i, copy == nullptr ? copy : copy + i,
                 static_cast<uint32_t>(buffers.first_place + i), length);
        });
    };
    with_type(buffers.moment, [&]<class Moment>(Moment*) {
        auto* const m = data<Moment>(buffers.moment);
        if (buffers.copy.defined())
            update(m, data<bf16>(buffers.copy));
        else
            update(m, static_cast<float*>(nullptr));
    });
}

}  // namespace

void lion(const LionBuffers& buffers, const LionStep& step) {
    const LionFactors factors{static_cast<float>(step.gradient_scale),
                              static_cast<float>(1 - step.learning_rate * step.weight_decay),
                              static_cast<float>(step.beta1),
                              static_cast<float>(1 - step.beta1),
                              static_cast<float>(step.beta2),
                              static_cast<float>(1 - step.beta2),
                              static_cast<float>(step.learning_rate)};
    with_one_moment(
        buffers, [&](float* w, auto* m, const float* g, auto* copy, uint32_t place, int64_t count) {
            lion_block(w, m, g, copy, factors, place, static_cast<uint32_t>(step.step), count);
        });
}

void rmsprop(const LionBuffers& buffers, const RmspropStep& step) {
    const RmspropFactors factors{
        static_cast<float>(step.gradient_scale), static_cast<float>(step.weight_decay),
        static_cast<float>(step.keeps),          static_cast<float>(1 - step.keeps),
        static_cast<float>(step.epsilon),        static_cast<float>(step.learning_rate)};
    with_one_moment(
        buffers, [&](float* w, auto* v, const float* g, auto* copy, uint32_t place, int64_t count) {
            rmsprop_block(w, v, g, copy, factors, place, static_cast<uint32_t>(step.step), count);
        });
}

void sgd(const SgdBuffers& buffers, const SgdStep& step) {
    const SgdFactors factors{static_cast<float>(step.gradient_scale),
                             static_cast<float>(step.weight_decay),
                             static_cast<float>(step.momentum),
                             step.step == 1 ? 1.0F : static_cast<float>(1 - step.dampening),
                             step.nesterov,
                             static_cast<float>(step.learning_rate)};
    float* const w = data<float>(buffers.weights);
    const float* const g = data<float>(buffers.gradient);
    const auto update = [&]<class Moment, class Copy>(Moment* m, Copy* copy) {
        for_blocks(buffers.weights.numel(), [&](int64_t i, int64_t length) {
            sgd_block(w + i, m == nullptr ? m : m + i, g + i, copy == nullptr ? copy : copy + i,
                      factors, static_cast<uint32_t>(buffers.first_place + i),
                      static_cast<uint32_t>(step.step), length);
        });
    };
    const auto with_copy = [&]<class Moment>(Moment* m) {
        if (buffers.copy.defined())
            update(m, data<bf16>(buffers.copy));
        else
            update(m, static_cast<float*>(nullptr));
    };
    if (!buffers.momentum.defined()) return with_copy(static_cast<float*>(nullptr));
    with_type(buffers.momentum,
              [&]<class Moment>(Moment*) { with_copy(data<Moment>(buffers.momentum)); });
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

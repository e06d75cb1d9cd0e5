#include "numbers.cuh"
#include "team.cuh"

// Updates with moments in 8 bits (ops/coded_moments.hpp): a team updates one block of weights.
namespace ringshard::ops::gpu {

namespace {

constexpr int block = 256;  // weights that share a maximum, and values of a code

// The code of the value nearest to a number between -1 and 1: how many middles between neighbours
// lie below it, in eight steps.
RINGSHARD_BOTH uint8_t nearest(const float* values, float number) {
    int code = 0;
    for (int step = block / 2; step > 0; step /= 2) {
        const int last = code + step - 1;
        if (last + 1 < block && (values[last] + values[last + 1]) / 2 < number) code += step;
    }
    return static_cast<uint8_t>(code);
}

struct Largest {
    RINGSHARD_BOTH float operator()(float a, float b) const { return a > b ? a : b; }
};

RINGSHARD_BOTH float scale_of(float most) { return 1.0F / (most > 1e-38F ? most : 1e-38F); }

RINGSHARD_BOTH float between(float number) {
    return number < -1.0F ? -1.0F : number > 1.0F ? 1.0F : number;
}

struct Moments {
    float first;
    float second;
};

struct CodedAdamWUpdate {
    CodedAdamW work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t begin = team.number() * block;
        const float most_first = work.first.maxima[team.number()];
        const float most_second = work.second.maxima[team.number()];
        auto own = team.template own<Moments, 1>();
        team.each_own(block, own, [&](int64_t i, Moments& moments) {
            const int64_t at = begin + i;
            const float gradient = work.gradient[at] * work.gradient_scale;
            const float m = work.first.values[work.first.codes[at]] * most_first;
            const float v = work.second.values[work.second.codes[at]] * most_second;
            moments.first = m * work.first_keeps + gradient * work.first_takes;
            moments.second = v * work.second_keeps + gradient * gradient * work.second_takes;
            const float w = work.weights[at] * work.decay -
                            work.step_size * moments.first /
                                (sqrtf(moments.second) * work.root_scale + work.epsilon);
            work.weights[at] = w;
            if (work.copy != nullptr) store<1>(static_cast<bf16*>(work.copy) + at, Floats<1>{w});
        });
        const float first = team.reduce_own(
            block, own, 0.0F, [](int64_t, Moments& moments) { return fabsf(moments.first); },
            Largest());
        const float second = team.reduce_own(
            block, own, 0.0F, [](int64_t, Moments& moments) { return moments.second; }, Largest());
        team.each_own(block, own, [&](int64_t i, Moments& moments) {
            const int64_t at = begin + i;
            work.first.codes[at] =
                nearest(work.first.values, between(moments.first * scale_of(first)));
            work.second.codes[at] =
                nearest(work.second.values, between(moments.second * scale_of(second)));
        });
        team.each(1, [&](int64_t) {
            work.first.maxima[team.number()] = first;
            work.second.maxima[team.number()] = second;
        });
    }
};

struct CodedLionUpdate {
    CodedLion work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t begin = team.number() * block;
        const float most = work.moment.maxima[team.number()];
        auto own = team.template own<float, 1>();
        team.each_own(block, own, [&](int64_t i, float& moment) {
            const int64_t at = begin + i;
            const float gradient = work.gradient[at] * work.gradient_scale;
            const float m = work.moment.values[work.moment.codes[at]] * most;
            const float mean = m * work.direction_keeps + gradient * work.direction_takes;
            const float direction = static_cast<float>(mean > 0) - static_cast<float>(mean < 0);
            const float w = work.weights[at] * work.decay - work.step_size * direction;
            work.weights[at] = w;
            if (work.copy != nullptr) store<1>(static_cast<bf16*>(work.copy) + at, Floats<1>{w});
            moment = m * work.moment_keeps + gradient * work.moment_takes;
        });
        const float largest = team.reduce_own(
            block, own, 0.0F, [](int64_t, float& moment) { return fabsf(moment); }, Largest());
        team.each_own(block, own, [&](int64_t i, float& moment) {
            work.moment.codes[begin + i] =
                nearest(work.moment.values, between(moment * scale_of(largest)));
        });
        team.each(1, [&](int64_t) { work.moment.maxima[team.number()] = largest; });
    }
};

}  // namespace

void coded_adamw(const Queue& queue, const CodedAdamW& work) {
    run<256>(queue, work.blocks, CodedAdamWUpdate{work});
}

void coded_lion(const Queue& queue, const CodedLion& work) {
    run<256>(queue, work.blocks, CodedLionUpdate{work});
}

}  // namespace ringshard::ops::gpu

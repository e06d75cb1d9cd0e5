#include <algorithm>

#include "norm_backward.cuh"
#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// Returns the place of head i of all heads of all tokens.
RINGSHARD_BOTH int64_t place_of(const HeadNorm& work, int64_t i) {
    return i / work.count * work.row + i % work.count * work.width;
}

template <class T, int n>
struct NormalizeHead {
    HeadNorm work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.width;
        T* const y = static_cast<T*>(work.heads) + place_of(work, team.number());
        T* const x = static_cast<T*>(work.before) + team.number() * width;
        const T* const weight = static_cast<const T*>(work.weight);
        const float squares = team.reduce(
            width / n, 0.0F,
            [&](int64_t i) {
                const Floats<n> numbers = load<n>(y + i * n);
                float sum = 0;
                for (int k = 0; k < n; ++k) sum += numbers[k] * numbers[k];
                return sum;
            },
            Sum());
        const float inverse = 1.0F / sqrtf(squares / static_cast<float>(width) + work.epsilon);
        team.each(1, [&](int64_t) { work.inverse_rms[team.number()] = inverse; });
        team.each(width / n, [&](int64_t i) {
            Floats<n> numbers = load<n>(y + i * n);
            const Floats<n> w = load<n>(weight + i * n);
            store<n>(x + i * n, numbers);
            for (int k = 0; k < n; ++k) numbers[k] = (w[k] + work.offset) * (numbers[k] * inverse);
            store<n>(y + i * n, numbers);
        });
    }
};

template <class T, int n>
struct HeadBackward {
    HeadNorm work;
    int64_t num_ranges;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.width;
        float* const sums = team.memory();
        team.each(width / n, [&](int64_t i) {
            for (int k = 0; k < n; ++k) sums[i * n + k] = 0;
        });
        const T* const weight = static_cast<const T*>(work.weight);
        const Range mine = range_of(team.number(), num_ranges, work.tokens * work.count);
        for (int64_t head = mine.begin; head < mine.end; ++head) {
            T* const gradient = static_cast<T*>(work.heads) + place_of(work, head);
            const T* const x = static_cast<const T*>(work.before) + head * width;
            const float inverse = work.inverse_rms[head];
            const float dot = team.reduce(
                width / n, 0.0F,
                [&](int64_t i) {
                    return dot_of<T, n>(x + i * n, gradient + i * n, weight + i * n, work.offset,
                                        inverse);
                },
                Sum());
            const float mean = dot / static_cast<float>(width);
            team.each(width / n, [&](int64_t i) {
                const Floats<n> a = load<n>(x + i * n);
                const Floats<n> w = load<n>(weight + i * n);
                Floats<n> d = load<n>(gradient + i * n);
                for (int k = 0; k < n; ++k) {
                    const float normed = a[k] * inverse;
                    sums[i * n + k] += normed * d[k];
                    d[k] = inverse * ((w[k] + work.offset) * d[k] - normed * mean);
                }
                store<n>(gradient + i * n, d);
            });
        }
        float* const partial = work.d_weight + team.number() * width;
        team.each(width / n, [&](int64_t i) {
            for (int k = 0; k < n; ++k) partial[i * n + k] = sums[i * n + k];
        });
    }
};

// Packs of a head, such that a warp has work for all its threads.
template <class Work>
void with_head_packs(const HeadNorm& work, Work body) {
    with_type(work.type, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        constexpr int n = 4;
        if (work.width % n == 0 && fits<T>(n, work.row, work.heads, work.before, work.weight))
            body(type, PackSize<n>());
        else
            body(type, PackSize<1>());
    });
}

}  // namespace

// As many warps as the largest GPUs hold, each with a few heads at least.
int64_t num_head_ranges(int64_t heads) {
    constexpr int64_t warps = int64_t{132} * 64;
    constexpr int64_t fewest_heads = 4;
    return std::min((heads + fewest_heads - 1) / fewest_heads, warps);
}

void head_norm(const Queue& queue, const HeadNorm& work) {
    with_head_packs(work, [&](auto* type, auto size) {
        using T = std::remove_pointer_t<decltype(type)>;
        run<warp_size>(queue, work.tokens * work.count,
                       NormalizeHead<T, decltype(size)::value>{work});
    });
}

void head_norm_backward(const Queue& queue, const HeadNorm& work) {
    const int64_t ranges = num_head_ranges(work.tokens * work.count);
    with_head_packs(work, [&](auto* type, auto size) {
        using T = std::remove_pointer_t<decltype(type)>;
        run<warp_size>(queue, ranges, HeadBackward<T, decltype(size)::value>{work, ranges},
                       work.width);
    });
}

}  // namespace ringshard::ops::gpu

#include <algorithm>

#include "norm_backward.cuh"
#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// Threads for a row, or for a range of rows: narrow rows leave most of many without work.
constexpr int threads_for(int64_t width) {
    if (width <= 1024) return 128;
    return width <= 2048 ? 256 : 512;
}

// Calls `work` with threads_for(width), known when it is compiled.
template <int threads>
struct TeamSize {
    static constexpr int value = threads;
};
template <class Work>
void with_team(int64_t width, Work work) {
    switch (threads_for(width)) {
        case 128: return work(TeamSize<128>());
        case 256: return work(TeamSize<256>());
        default: return work(TeamSize<512>());
    }
}

template <class T, int n>
struct Normalize {
    RmsNorm work;
    bool has_inverse;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.width;
        const T* const x = static_cast<const T*>(work.x) + team.number() * width;
        T* const y = static_cast<T*>(work.y) + team.number() * width;
        const T* const weight = static_cast<const T*>(work.weight);
        float inverse = 0;
        if (has_inverse) {
            inverse = work.inverse_rms[team.number()];
        } else {
            const float squares = team.reduce(
                width / n, 0.0F,
                [&](int64_t i) {
                    const Floats<n> numbers = load<n>(x + i * n);
                    float sum = 0;
                    for (int k = 0; k < n; ++k) sum += numbers[k] * numbers[k];
                    return sum;
                },
                Sum());
            inverse = 1.0F / sqrtf(squares / static_cast<float>(width) + work.epsilon);
            team.each(1, [&](int64_t) { work.inverse_rms[team.number()] = inverse; });
        }
        team.each(width / n, [&](int64_t i) {
            Floats<n> numbers = load<n>(x + i * n);
            const Floats<n> w = load<n>(weight + i * n);
            for (int k = 0; k < n; ++k) numbers[k] = (w[k] + work.offset) * (numbers[k] * inverse);
            store<n>(y + i * n, numbers);
        });
    }
};

void normalize(const Queue& queue, const RmsNorm& work, bool has_inverse) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            const Normalize<T, decltype(size)::value> program{work, has_inverse};
            with_team(work.width,
                      [&](auto team) { run<decltype(team)::value>(queue, work.rows, program); });
        },
        work.x, work.y, work.weight);
}

template <class T, int n>
struct NormBackward {
    RmsNormBackward work;
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
        const Range mine = range_of(team.number(), num_ranges, work.rows);
        for (int64_t row = mine.begin; row < mine.end; ++row) {
            const T* const x = static_cast<const T*>(work.x) + row * width;
            const T* const dy = static_cast<const T*>(work.dy) + row * width;
            T* const dx = static_cast<T*>(work.dx) + row * width;
            const float inverse = work.inverse_rms[row];
            const float dot = team.reduce(
                width / n, 0.0F,
                [&](int64_t i) {
                    return dot_of<T, n>(x + i * n, dy + i * n, weight + i * n, work.offset,
                                        inverse);
                },
                Sum());
            const float mean = dot / static_cast<float>(width);
            team.each(width / n, [&](int64_t i) {
                const Floats<n> a = load<n>(x + i * n);
                const Floats<n> b = load<n>(dy + i * n);
                const Floats<n> w = load<n>(weight + i * n);
                Floats<n> gradient = load<n>(dx + i * n);
                for (int k = 0; k < n; ++k) {
                    const float normed = a[k] * inverse;
                    sums[i * n + k] += normed * b[k];
                    gradient[k] += inverse * ((w[k] + work.offset) * b[k] - normed * mean);
                }
                store<n>(dx + i * n, gradient);
            });
        }
        float* const partial = work.d_weight + team.number() * width;
        team.each(width / n, [&](int64_t i) {
            for (int k = 0; k < n; ++k) partial[i * n + k] = sums[i * n + k];
        });
    }
};

// 32 columns of a sum over many rows: all warps of a block share the rows.
constexpr int64_t columns_of_sum = 32;
constexpr int threads_of_sum = 1024;

struct AddRows {
    float* into;
    const float* from;
    int64_t rows;
    int64_t width;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        constexpr int64_t columns = columns_of_sum;
        constexpr int64_t shares = threads_of_sum / columns;
        const int64_t first = team.number() * columns;
        float* const sums = team.memory();
        team.each(columns * shares, [&](int64_t i) {
            const int64_t column = first + i % columns;
            float sum = 0;
            if (column < width)
                for (int64_t row = i / columns; row < rows; row += shares)
                    sum += from[row * width + column];
            sums[i] = sum;
        });
        team.sync();
        team.each(columns, [&](int64_t i) {
            if (first + i >= width) return;
            float sum = 0;
            for (int64_t share = 0; share < shares; ++share) sum += sums[share * columns + i];
            into[first + i] += sum;
        });
    }
};

}  // namespace

void rms_norm(const Queue& queue, const RmsNorm& work) { normalize(queue, work, false); }
void rms_norm_again(const Queue& queue, const RmsNorm& work) { normalize(queue, work, true); }

// A thousand threads and more for each multiprocessor of the largest GPUs.
int64_t num_row_ranges(int64_t rows, int64_t width) {
    constexpr int64_t threads = 264 * 512;
    return std::min<int64_t>(rows, threads / threads_for(width));
}

void rms_norm_backward(const Queue& queue, const RmsNormBackward& work) {
    const int64_t ranges = num_row_ranges(work.rows, work.width);
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            const NormBackward<T, decltype(size)::value> program{work, ranges};
            with_team(work.width, [&](auto team) {
                run<decltype(team)::value>(queue, ranges, program, work.width);
            });
        },
        work.x, work.dy, work.dx, work.weight);
}

void add_rows(const Queue& queue, float* into, const float* from, int64_t rows, int64_t width) {
    run<threads_of_sum>(queue, (width + columns_of_sum - 1) / columns_of_sum,
                        AddRows{into, from, rows, width}, threads_of_sum);
}

}  // namespace ringshard::ops::gpu

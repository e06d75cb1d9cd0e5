#include "row_team.cuh"

namespace ringshard::ops::gpu {

namespace {

template <class T>
RINGSHARD_BOTH float rounded(float number) {
    T narrow;
    put(narrow, number);
    return to_float(narrow);
}

template <class T, int n, int packs>
struct Normalize {
    RmsNorm work;
    bool has_inverse;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.width;
        const int64_t row = team.number() * width;
        const T* const x = static_cast<const T*>(work.x) + row;
        T* const y = static_cast<T*>(work.y) + row;
        T* const branch = work.branch == nullptr ? nullptr : static_cast<T*>(work.branch) + row;
        const T* const weight = static_cast<const T*>(work.weight);
        using Kept = KeptPack<T, n, packs>;
        auto own = team.template own<Kept, packs>();
        const auto sum_of_branch = [&](int64_t i) {
            Floats<n> sum = load<n>(branch + i * n);
            const Floats<n> before = load<n>(x + i * n);
            for (int k = 0; k < n; ++k) sum[k] = rounded<T>(sum[k] * work.factor) + before[k];
            const Pack<T, n> pack = to_pack<T, n>(sum);
            store_pack<n>(branch + i * n, pack);
            return pack;
        };
        const T* const normed = branch == nullptr ? x : branch;
        const auto numbers_of = [&](int64_t i) { return load_pack<n>(normed + i * n); };
        float inverse = 0;
        if (has_inverse) {
            inverse = work.inverse_rms[team.number()];
            team.each_own(width / n, own, [&](int64_t i, Kept& kept) {
                kept.first([&] { return numbers_of(i); });
            });
        } else {
            const float squares = team.reduce_own(
                width / n, own, 0.0F,
                [&](int64_t i, Kept& kept) {
                    const Floats<n> numbers = to_floats<n>(kept.first(
                        [&] { return branch == nullptr ? numbers_of(i) : sum_of_branch(i); }));
                    float sum = 0;
                    for (int k = 0; k < n; ++k) sum += numbers[k] * numbers[k];
                    return sum;
                },
                Sum());
            inverse = 1.0F / sqrtf(squares / static_cast<float>(width) + work.epsilon);
            team.each(1, [&](int64_t) { work.inverse_rms[team.number()] = inverse; });
        }
        team.each_own(width / n, own, [&](int64_t i, Kept& kept) {
            Floats<n> numbers = to_floats<n>(kept.again([&] { return numbers_of(i); }));
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
            constexpr int n = decltype(size)::value;
            with_team(work.width, [&](auto team) {
                constexpr int threads = decltype(team)::value;
                with_packs_of_thread<n, threads>(work.width, [&](auto packs) {
                    run<threads>(queue, work.rows,
                                 Normalize<T, n, decltype(packs)::value>{work, has_inverse});
                });
            });
        },
        work.x, work.y, work.weight, work.branch);
}

// Rows of single numbers need these registers themselves.
template <int n>
constexpr bool makes_normed_in_place = n > 1;

// With n = x * r, r = 1 / rms(x): dx = r * (w dy - n * mean(n w dy)), dw = n dy.
template <class T, int n, int packs>
struct NormBackward {
    RmsNormBackward work;
    int64_t num_ranges;

    // The columns of one pack. The rows before the norm are read twice, from the cache: with them
    // the registers would not suffice for all blocks of a multiprocessor.
    struct Columns {
        Floats<n> sum;  // of the weights' gradient
        KeptPack<T, n, packs> dy;
        KeptPack<T, n, packs> dx;
    };

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.width;
        auto own = team.template own<Columns, packs>();
        team.each_own(width / n, own, [&](int64_t, Columns& columns) {
            for (int k = 0; k < n; ++k) columns.sum[k] = 0;
        });
        const T* const weight = static_cast<const T*>(work.weight);
        const Range mine = range_of(team.number(), num_ranges, work.rows);
        for (int64_t row = mine.begin; row < mine.end; ++row) {
            const T* const x = static_cast<const T*>(work.x) + row * width;
            T* const dy = static_cast<T*>(work.dy) + row * width;
            T* const dx = static_cast<T*>(work.dx) + row * width;
            const float inverse = work.inverse_rms[row];
            const float dot = team.reduce_own(
                width / n, own, 0.0F,
                [&](int64_t i, Columns& columns) {
                    const Floats<n> a = load<n>(x + i * n);
                    const Floats<n> b =
                        to_floats<n>(columns.dy.first([&] { return load_pack<n>(dy + i * n); }));
                    columns.dx.ahead([&] { return load_pack<n>(dx + i * n); });
                    const Floats<n> w = load<n>(weight + i * n);
                    if (row + 1 < mine.end) {
                        prefetch(x + width + i * n);
                        prefetch(dy + width + i * n);
                        prefetch(dx + width + i * n);
                    }
                    float sum = 0;
                    for (int k = 0; k < n; ++k) sum += a[k] * inverse * (w[k] + work.offset) * b[k];
                    return sum;
                },
                Sum());
            const float mean = dot / static_cast<float>(width);
            team.each_own(width / n, own, [&](int64_t i, Columns& columns) {
                const Floats<n> a = load<n>(x + i * n);
                const Floats<n> b =
                    to_floats<n>(columns.dy.again([&] { return load_pack<n>(dy + i * n); }));
                const Floats<n> w = load<n>(weight + i * n);
                Floats<n> gradient =
                    to_floats<n>(columns.dx.again([&] { return load_pack<n>(dx + i * n); }));
                Floats<n> y;
                for (int k = 0; k < n; ++k) {
                    const float normed = a[k] * inverse;
                    columns.sum[k] += normed * b[k];
                    gradient[k] += inverse * ((w[k] + work.offset) * b[k] - normed * mean);
                    y[k] = (w[k] + work.offset) * normed;
                }
                store<n>(dx + i * n, gradient);
                if constexpr (makes_normed_in_place<n>)
                    if (work.makes_normed) store<n>(dy + i * n, y);
            });
        }
        float* const partial = work.d_weight + team.number() * width;
        team.each_own(width / n, own, [&](int64_t i, Columns& columns) {
            for (int k = 0; k < n; ++k) partial[i * n + k] = columns.sum[k];
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

int64_t num_row_ranges(int64_t rows, int64_t width) {
    return ranges_of_rows(rows, threads_of_row(width));
}

void rms_norm_backward(const Queue& queue, const RmsNormBackward& work) {
    const int64_t ranges = num_row_ranges(work.rows, work.width);
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            constexpr int n = decltype(size)::value;
            with_team(work.width, [&](auto team) {
                constexpr int threads = decltype(team)::value;
                with_packs_of_thread<n, threads>(work.width, [&](auto packs) {
                    run<threads, resident_blocks_of_ranges(threads)>(
                        queue, ranges, NormBackward<T, n, decltype(packs)::value>{work, ranges});
                });
            });
            if (work.makes_normed && !makes_normed_in_place<n>)
                rms_norm_again(queue, {.type = work.type,
                                       .x = work.x,
                                       .weight = work.weight,
                                       .y = work.dy,
                                       .inverse_rms = const_cast<float*>(work.inverse_rms),  // read
                                       .rows = work.rows,
                                       .width = work.width,
                                       .epsilon = 0,
                                       .offset = work.offset});
        },
        work.x, work.dy, work.dx, work.weight);
}

void add_rows(const Queue& queue, float* into, const float* from, int64_t rows, int64_t width) {
    run<threads_of_sum>(queue, (width + columns_of_sum - 1) / columns_of_sum,
                        AddRows{into, from, rows, width}, threads_of_sum);
}

}  // namespace ringshard::ops::gpu

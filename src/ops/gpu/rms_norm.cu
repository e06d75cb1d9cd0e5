#include "row_team.cuh"

namespace ringshard::ops::gpu {

namespace {

template <class T>
RINGSHARD_BOTH float rounded(float number) {
    T narrow;
    put(narrow, number);
    return to_float(narrow);
}

// Threads read all their packs of a row before they wait for each other, and have them in
// registers.
template <class T, int n, int packs, int threads, bool has_branch>
struct Normalize {
    RmsNorm work;
    bool has_inverse;

    struct Share {
        Pack<T, n> of_row[packs];
    };

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int count = static_cast<int>(work.width / n);
        const T* const x = static_cast<const T*>(work.x) + team.number() * work.width;
        T* const y = static_cast<T*>(work.y) + team.number() * work.width;
        const T* const weight = static_cast<const T*>(work.weight);
        auto own = team.template own<Share, 1>();
        team.each_own(threads, own, [&](int64_t thread, Share& share) {
            for_packs(thread, count,
                      [&](int k, int pack) { share.of_row[k] = load_pack<n>(x + pack * n); });
            if constexpr (has_branch) add_branch(thread, count, team.number(), share);
        });
        float inverse = 0;
        if (has_inverse) {
            inverse = work.inverse_rms[team.number()];
        } else {
            const float squares = team.reduce_own(
                threads, own, 0.0F,
                [&](int64_t thread, const Share& share) {
                    float sum = 0;
                    for_packs(thread, count, [&](int k, int) {
                        const Floats<n> numbers = to_floats<n>(share.of_row[k]);
                        for (int j = 0; j < n; ++j) sum += numbers[j] * numbers[j];
                    });
                    return sum;
                },
                Sum());
            inverse = 1.0F / sqrtf(squares / static_cast<float>(work.width) + work.epsilon);
            team.each(1, [&](int64_t) { work.inverse_rms[team.number()] = inverse; });
        }
        team.each_own(threads, own, [&](int64_t thread, const Share& share) {
            Share weights;
            for_packs(thread, count, [&](int k, int pack) {
                weights.of_row[k] = load_pack<n>(weight + pack * n);
            });
            for_packs(thread, count, [&](int k, int pack) {
                Floats<n> numbers = to_floats<n>(share.of_row[k]);
                const Floats<n> w = to_floats<n>(weights.of_row[k]);
                for (int j = 0; j < n; ++j)
                    numbers[j] = (w[j] + work.offset) * (numbers[j] * inverse);
                store<n>(y + pack * n, numbers);
            });
        });
    }

private:
    // The share becomes that of the sum.
    RINGSHARD_BOTH void add_branch(int64_t thread, int count, int64_t row, Share& share) const {
        T* const branch = static_cast<T*>(work.branch) + row * work.width;
        Share branches;
        for_packs(thread, count,
                  [&](int k, int pack) { branches.of_row[k] = load_pack<n>(branch + pack * n); });
        for_packs(thread, count, [&](int k, int pack) {
            Floats<n> sum = to_floats<n>(branches.of_row[k]);
            const Floats<n> before = to_floats<n>(share.of_row[k]);
            for (int j = 0; j < n; ++j) sum[j] = rounded<T>(sum[j] * work.factor) + before[j];
            share.of_row[k] = to_pack<T, n>(sum);
            store_pack<n>(branch + pack * n, share.of_row[k]);
        });
    }

    template <class Work>
    RINGSHARD_BOTH static void for_packs(int64_t thread, int count, Work work_of_pack) {
#pragma unroll
        for (int k = 0; k < packs; ++k) {
            const int pack = static_cast<int>(thread) + k * threads;
            if (pack < count) work_of_pack(k, pack);
        }
    }
};

constexpr int one_by_one = 0;

// Rows of single numbers, which a thread reads one by one: of all at once there are too many for
// its registers.
template <class T, int threads, bool has_branch>
struct Normalize<T, 1, one_by_one, threads, has_branch> {
    RmsNorm work;
    bool has_inverse;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.width;
        const int64_t row = team.number() * width;
        const T* const x = static_cast<const T*>(work.x) + row;
        T* const y = static_cast<T*>(work.y) + row;
        T* const branch = has_branch ? static_cast<T*>(work.branch) + row : nullptr;
        const T* const weight = static_cast<const T*>(work.weight);
        float inverse = 0;
        if (has_inverse) {
            inverse = work.inverse_rms[team.number()];
        } else {
            const float squares = team.reduce(
                width, 0.0F,
                [&](int64_t i) {
                    Floats<1> number = load<1>(x + i);
                    if constexpr (has_branch) {
                        const float sum = rounded<T>(load<1>(branch + i)[0] * work.factor);
                        const Pack<T, 1> pack = to_pack<T, 1>(Floats<1>{sum + number[0]});
                        store_pack<1>(branch + i, pack);
                        number = to_floats<1>(pack);
                    }
                    return number[0] * number[0];
                },
                Sum());
            inverse = 1.0F / sqrtf(squares / static_cast<float>(width) + work.epsilon);
            team.each(1, [&](int64_t) { work.inverse_rms[team.number()] = inverse; });
        }
        team.each(width, [&](int64_t i) {
            const Floats<1> number = load<1>(has_branch ? branch + i : x + i);
            const Floats<1> w = load<1>(weight + i);
            store<1>(y + i, Floats<1>{(w[0] + work.offset) * (number[0] * inverse)});
        });
    }
};

// Calls `work` with the threads of a row and the most packs of each.
template <int n, class Work>
void with_shares(int64_t width, Work work) {
    constexpr int most = 16 / n;  // of the largest team
    check_width(width, most * n * 1024);
    const int64_t packs = width / n;
    if constexpr (n == 1)
        with_team(width, [&](auto team) { work(team, PackSize<one_by_one>()); });
    else if (packs <= 4 * 32)
        work(TeamSize<32>(), PackSize<4>());
    else if (packs <= 2 * 128)
        work(TeamSize<128>(), PackSize<2>());
    else if (packs <= 4 * 128)
        work(TeamSize<128>(), PackSize<4>());
    else if (packs <= 4 * 256)
        work(TeamSize<256>(), PackSize<4>());
    else
        work(TeamSize<1024>(), PackSize<most>());
}

// With more, registers would not suffice.
constexpr int resident_blocks_of_norm(int threads, bool has_branch) {
    return threads == 1024 ? 1 : (has_branch ? 768 : 1024) / threads_per_block(threads);
}

template <bool has_branch>
void normalize(const Queue& queue, const RmsNorm& work, bool has_inverse) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            constexpr int n = decltype(size)::value;
            with_shares<n>(work.width, [&](auto team, auto most) {
                constexpr int threads = decltype(team)::value;
                constexpr int packs = decltype(most)::value;
                run<threads, resident_blocks_of_norm(threads, has_branch)>(
                    queue, work.rows,
                    Normalize<T, n, packs, threads, has_branch>{work, has_inverse});
            });
        },
        work.x, work.y, work.weight, has_branch ? work.branch : nullptr);
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

void rms_norm(const Queue& queue, const RmsNorm& work) {
    if (work.branch == nullptr)
        normalize<false>(queue, work, false);
    else
        normalize<true>(queue, work, false);
}

// The branch is the sum already.
void rms_norm_again(const Queue& queue, const RmsNorm& work) {
    RmsNorm of_sum = work;
    if (work.branch != nullptr) of_sum.x = work.branch;
    normalize<false>(queue, of_sum, true);
}

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

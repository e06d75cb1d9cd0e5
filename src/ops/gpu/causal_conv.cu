#include "numbers.cuh"
#include "sigmoid.cuh"
#include "state_kernels.hpp"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// A team takes some columns, a thread each, through some rows: a range of them makes one sum of
// weight gradients.
constexpr int64_t rows_per_strip = 32;
constexpr int64_t rows_per_range = 256;
constexpr int64_t columns_per_group = 256;

RINGSHARD_BOTH int64_t num_column_groups(int64_t columns) {
    return (columns + columns_per_group - 1) / columns_per_group;
}

// What the taps of one row read: a row of its stretch, or one before it.
template <class T>
struct TapsOfRow {
    const T* x;  // the row itself
    int64_t x_row;
    const T* before;  // as if the row lay behind the rows before its stretch
    int64_t columns;
    int64_t in_stretch;
    int64_t taps;

    RINGSHARD_BOTH float read(int64_t tap, int64_t column) const {
        const int64_t back = taps - 1 - tap;
        if (back <= in_stretch) return to_float(x[column - back * x_row]);
        return to_float(before[column - back * columns]);
    }
};

template <class T>
struct Rows {
    CausalConv work;

    RINGSHARD_BOTH TapsOfRow<T> taps_of(int64_t t) const {
        const int64_t stretch = work.stretch_of_row[t];
        const int64_t in_stretch = t - work.begins[stretch];
        const int64_t behind = (stretch + 1) * (work.taps - 1) + in_stretch;
        return {static_cast<const T*>(work.x) + t * work.x_row,
                work.x_row,
                static_cast<const T*>(work.before) + behind * work.columns,
                work.columns,
                in_stretch,
                work.taps};
    }
    RINGSHARD_BOTH float weight(int64_t tap, int64_t column) const {
        return to_float(static_cast<const T*>(work.weight)[column * work.taps + tap]);
    }
    RINGSHARD_BOTH float bias(int64_t column) const {
        return work.bias == nullptr ? 0 : to_float(static_cast<const T*>(work.bias)[column]);
    }
};

// What the taps of a row read of one column, and the column's weights.
template <int taps>
struct Taps {
    float numbers[taps];
};

// A team's rows and columns.
struct Block {
    RINGSHARD_BOTH Block(const CausalConv& work, int64_t number, int64_t rows_of_team)
        : range(number / num_column_groups(work.columns)),
          begin(range * rows_of_team),
          end(begin + rows_of_team < work.rows ? begin + rows_of_team : work.rows),
          first(number % num_column_groups(work.columns) * columns_per_group),
          columns(work.columns - first < columns_per_group ? work.columns - first
                                                           : columns_per_group) {}
    int64_t range;
    int64_t begin;
    int64_t end;
    int64_t first;
    int64_t columns;
};

// Calls work(t, what the taps of row t read, beside(t)) for the rows of the block, in their order.
// Each number is read once, but where a strip or a stretch begins, and some rows ahead.
template <int taps, class T, class Beside, class Work>
RINGSHARD_BOTH void for_rows(const Rows<T>& rows, const Block& block, int64_t column, Beside beside,
                             Work work) {
    constexpr int ahead = 4;
    const T* const x = static_cast<const T*>(rows.work.x) + column;
    for (int64_t t = block.begin; t < block.end;) {
        const TapsOfRow<T> row = rows.taps_of(t);
        Taps<taps> read;
        for (int tap = 0; tap < taps; ++tap) read.numbers[tap] = row.read(tap, column);
        const int64_t next_stretch = rows.work.begins[rows.work.stretch_of_row[t] + 1];
        const int64_t end = next_stretch < block.end ? next_stretch : block.end;
        work(t, read, beside(t));
        for (++t; t < end; t += ahead) {
            float numbers[ahead];
            float others[ahead];
            const int count = static_cast<int>(end - t < ahead ? end - t : ahead);
            for (int j = 0; j < ahead; ++j)
                if (j < count) {
                    numbers[j] = to_float(x[(t + j) * rows.work.x_row]);
                    others[j] = beside(t + j);
                }
            for (int j = 0; j < ahead; ++j)
                if (j < count) {
                    for (int tap = 1; tap < taps; ++tap) read.numbers[tap - 1] = read.numbers[tap];
                    read.numbers[taps - 1] = numbers[j];
                    work(t + j, read, others[j]);
                }
        }
        t = end;
    }
}

template <int taps, class T>
RINGSHARD_BOTH Taps<taps> weights_of(const Rows<T>& rows, int64_t column) {
    Taps<taps> weights;
    for (int tap = 0; tap < taps; ++tap) weights.numbers[tap] = rows.weight(tap, column);
    return weights;
}

template <int taps>
RINGSHARD_BOTH float sum_of(float bias, const Taps<taps>& weights, const Taps<taps>& read) {
    float sum = bias;
    for (int tap = 0; tap < taps; ++tap) sum += weights.numbers[tap] * read.numbers[tap];
    return sum;
}

template <int taps, class T>
struct ConvForward {
    Rows<T> rows;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const Block block(rows.work, team.number(), rows_per_strip);
        team.each(block.columns, [&](int64_t i) {
            const int64_t column = block.first + i;
            const Taps<taps> weights = weights_of<taps>(rows, column);
            const float bias = rows.bias(column);
            T* const y = static_cast<T*>(rows.work.y) + column;
            const auto nothing = [](int64_t) { return 0.0F; };
            for_rows<taps>(
                rows, block, column, nothing, [&](int64_t t, const Taps<taps>& read, float) {
                    const float sum = sum_of(bias, weights, read);
                    put(y[t * rows.work.columns], rows.work.has_silu ? sum * sigmoid(sum) : sum);
                });
        });
    }
};

// From the gradient of the results to that of the sums.
template <int taps, class T>
struct OfSums {
    Rows<T> rows;
    CausalConvBackward gradient;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const Block block(rows.work, team.number(), rows_per_strip);
        team.each(block.columns, [&](int64_t i) {
            const int64_t column = block.first + i;
            const Taps<taps> weights = weights_of<taps>(rows, column);
            const float bias = rows.bias(column);
            const float* const dy = gradient.dy + column;
            float* const d_sums = gradient.d_sums + column;
            const auto result = [&](int64_t t) { return dy[t * gradient.dy_row]; };
            for_rows<taps>(rows, block, column, result,
                           [&](int64_t t, const Taps<taps>& read, float of_result) {
                               const float sum = sum_of(bias, weights, read);
                               const float s = sigmoid(sum);
                               d_sums[t * rows.work.columns] =
                                   rows.work.has_silu ? of_result * s * (1.0F + sum * (1.0F - s))
                                                      : of_result;
                           });
        });
    }
};

// A row's gradient is that of the sums, of its stretch, which read it: from the last row to the
// first, each read once.
template <int taps, class T>
struct OfRows {
    Rows<T> rows;
    CausalConvBackward gradient;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const CausalConv& work = rows.work;
        const Block block(work, team.number(), rows_per_strip);
        team.each(block.columns, [&](int64_t i) {
            const int64_t column = block.first + i;
            const Taps<taps> weights = weights_of<taps>(rows, column);
            const float* const d_sums = gradient.d_sums + column;
            float* const dx = gradient.dx + column;
            Taps<taps> readers;  // of the row that the taps of later rows read, as the taps lie
            int64_t stretch_begin = block.end;
            for (int64_t t = block.end - 1; t >= block.begin; --t) {
                if (t == block.end - 1 || t == stretch_begin - 1) {
                    const int64_t stretch = work.stretch_of_row[t];
                    stretch_begin = work.begins[stretch];
                    const int64_t end = work.begins[stretch + 1];
                    for (int tap = 0; tap < taps; ++tap) {
                        const int64_t reader = t + taps - 1 - tap;
                        readers.numbers[tap] = reader < end ? d_sums[reader * work.columns] : 0.0F;
                    }
                } else {
                    for (int tap = 1; tap < taps; ++tap)
                        readers.numbers[tap - 1] = readers.numbers[tap];
                    readers.numbers[taps - 1] = d_sums[t * work.columns];
                }
                dx[t * gradient.dx_row] = sum_of(0.0F, weights, readers);
            }
        });
    }
};

// The same of the rows before stretches: a team for each.
template <class T>
struct OfRowsBefore {
    Rows<T> rows;
    CausalConvBackward gradient;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const CausalConv& work = rows.work;
        const int64_t stretch = team.number() / (work.taps - 1);
        const int64_t place = team.number() % (work.taps - 1);
        const int64_t begin = work.begins[stretch];
        const int64_t length = work.begins[stretch + 1] - begin;
        team.each(work.columns, [&](int64_t column) {
            float sum = 0;
            for (int64_t tap = 0; tap <= place; ++tap)
                if (place - tap < length)
                    sum += rows.weight(tap, column) *
                           gradient.d_sums[(begin + place - tap) * work.columns + column];
            gradient.d_before[team.number() * work.columns + column] = sum;
        });
    }
};

template <int taps, class T>
struct OfWeights {
    Rows<T> rows;
    CausalConvBackward gradient;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const Block block(rows.work, team.number(), rows_per_range);
        team.each(block.columns, [&](int64_t i) {
            const int64_t column = block.first + i;
            const float* const d_sums = gradient.d_sums + column;
            Taps<taps> sums{};
            const auto sum = [&](int64_t t) { return d_sums[t * rows.work.columns]; };
            for_rows<taps>(rows, block, column, sum,
                           [&](int64_t, const Taps<taps>& read, float of_sum) {
                               for (int tap = 0; tap < taps; ++tap)
                                   sums.numbers[tap] += of_sum * read.numbers[tap];
                           });
            float* const into =
                gradient.d_weight + (block.range * rows.work.columns + column) * taps;
            for (int tap = 0; tap < taps; ++tap) into[tap] = sums.numbers[tap];
        });
    }
};

// Calls `work` with a null pointer of the type, and the taps.
template <class Work>
void with_taps(const CausalConv& conv, Work work) {
    with_type(conv.type, [&](auto* type) {
        if (conv.taps == 4) return work(type, PackSize<4>());
        if (conv.taps == 3) return work(type, PackSize<3>());
        throw std::runtime_error("a convolution over " + std::to_string(conv.taps) +
                                 " tokens: on a GPU it has 3 or 4");
    });
}

int64_t num_strips(const CausalConv& work) {
    return (work.rows + rows_per_strip - 1) / rows_per_strip * num_column_groups(work.columns);
}

}  // namespace

int64_t num_conv_ranges(int64_t rows) { return (rows + rows_per_range - 1) / rows_per_range; }

void causal_conv(const Queue& queue, const CausalConv& work) {
    with_taps(work, [&](auto* type, auto taps) {
        using T = std::remove_pointer_t<decltype(type)>;
        run<256>(queue, num_strips(work), ConvForward<decltype(taps)::value, T>{{work}});
    });
}

void causal_conv_backward(const Queue& queue, const CausalConv& work,
                          const CausalConvBackward& gradient) {
    with_taps(work, [&](auto* type, auto size) {
        using T = std::remove_pointer_t<decltype(type)>;
        constexpr int taps = decltype(size)::value;
        run<256>(queue, num_strips(work), OfSums<taps, T>{{work}, gradient});
        run<256>(queue, num_strips(work), OfRows<taps, T>{{work}, gradient});
        run<256>(queue, work.stretches * (taps - 1), OfRowsBefore<T>{{work}, gradient});
        run<256>(queue, num_conv_ranges(work.rows) * num_column_groups(work.columns),
                 OfWeights<taps, T>{{work}, gradient});
    });
}

}  // namespace ringshard::ops::gpu

#include "numbers.cuh"
#include "sigmoid.cuh"
#include "state_kernels.hpp"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// Rows of one sum of weight gradients.
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
    RINGSHARD_BOTH float sum(const TapsOfRow<T>& row, int64_t column) const {
        float sum = work.bias == nullptr ? 0 : to_float(static_cast<const T*>(work.bias)[column]);
        for (int64_t tap = 0; tap < work.taps; ++tap)
            sum += weight(tap, column) * row.read(tap, column);
        return sum;
    }
};

// A team for each row.
template <class T>
struct ConvForward {
    Rows<T> rows;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t t = team.number();
        T* const y = static_cast<T*>(rows.work.y) + t * rows.work.columns;
        const TapsOfRow<T> row = rows.taps_of(t);
        team.each(rows.work.columns, [&](int64_t column) {
            const float sum = rows.sum(row, column);
            put(y[column], rows.work.has_silu ? sum * sigmoid(sum) : sum);
        });
    }
};

// From the gradient of the results to that of the sums.
template <class T>
struct OfSums {
    Rows<T> rows;
    CausalConvBackward gradient;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t t = team.number();
        const TapsOfRow<T> row = rows.taps_of(t);
        const float* const dy = gradient.dy + t * gradient.dy_row;
        float* const d_sums = gradient.d_sums + t * rows.work.columns;
        team.each(rows.work.columns, [&](int64_t column) {
            if (!rows.work.has_silu) {
                d_sums[column] = dy[column];
                return;
            }
            const float sum = rows.sum(row, column);
            const float s = sigmoid(sum);
            d_sums[column] = dy[column] * s * (1.0F + sum * (1.0F - s));
        });
    }
};

// A row's gradient is that of the sums, of its stretch, which read it. Rows before stretches follow
// those of the stretches.
template <class T>
struct OfRows {
    Rows<T> rows;
    CausalConvBackward gradient;

    // Of the row that lies `place` rows behind the begin of a stretch, before it where negative.
    RINGSHARD_BOTH float at(int64_t stretch, int64_t place, int64_t column) const {
        const CausalConv& work = rows.work;
        const int64_t begin = work.begins[stretch];
        const int64_t length = work.begins[stretch + 1] - begin;
        float sum = 0;
        for (int64_t tap = 0; tap < work.taps; ++tap) {
            const int64_t reader = place + work.taps - 1 - tap;
            if (reader >= 0 && reader < length)
                sum += rows.weight(tap, column) *
                       gradient.d_sums[(begin + reader) * work.columns + column];
        }
        return sum;
    }

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const CausalConv& work = rows.work;
        const int64_t number = team.number();
        if (number < work.rows) {
            const int64_t stretch = work.stretch_of_row[number];
            float* const dx = gradient.dx + number * gradient.dx_row;
            team.each(work.columns, [&](int64_t column) {
                dx[column] = at(stretch, number - work.begins[stretch], column);
            });
            return;
        }
        const int64_t row = number - work.rows;
        const int64_t place = row % (work.taps - 1) - (work.taps - 1);
        team.each(work.columns, [&](int64_t column) {
            gradient.d_before[row * work.columns + column] =
                at(row / (work.taps - 1), place, column);
        });
    }
};

// A team for each range of rows and group of columns. Neighbouring threads read neighbouring
// columns.
template <class T>
struct OfWeights {
    Rows<T> rows;
    CausalConvBackward gradient;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const CausalConv& work = rows.work;
        const int64_t groups = num_column_groups(work.columns);
        const int64_t range = team.number() / groups;
        const int64_t first = team.number() % groups * columns_per_group;
        const int64_t left = work.columns - first;
        const int64_t columns = left < columns_per_group ? left : columns_per_group;
        const int64_t begin = range * rows_per_range;
        const int64_t end = begin + rows_per_range < work.rows ? begin + rows_per_range : work.rows;
        float* const sums = gradient.d_weight + (range * work.columns + first) * work.taps;
        for (int64_t tap = 0; tap < work.taps; ++tap)
            team.each(columns, [&](int64_t column) {
                float sum = 0;
                for (int64_t t = begin; t < end; ++t)
                    sum += gradient.d_sums[t * work.columns + first + column] *
                           rows.taps_of(t).read(tap, first + column);
                sums[column * work.taps + tap] = sum;
            });
    }
};

}  // namespace

int64_t num_conv_ranges(int64_t rows) { return (rows + rows_per_range - 1) / rows_per_range; }

void causal_conv(const Queue& queue, const CausalConv& work) {
    with_type(work.type, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        run<256>(queue, work.rows, ConvForward<T>{{work}});
    });
}

void causal_conv_backward(const Queue& queue, const CausalConv& work,
                          const CausalConvBackward& gradient) {
    with_type(work.type, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        run<256>(queue, work.rows, OfSums<T>{{work}, gradient});
        run<256>(queue, work.rows + work.stretches * (work.taps - 1), OfRows<T>{{work}, gradient});
        run<256>(queue, num_conv_ranges(work.rows) * num_column_groups(work.columns),
                 OfWeights<T>{{work}, gradient});
    });
}

}  // namespace ringshard::ops::gpu

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

// Columns of one task: its rows stay in the cache.
constexpr int64_t columns_per_task = 256;

// Rows of a matrix, which may lie apart.
template <class T>
struct Rows {
    explicit Rows(const at::Tensor& x) : first(static_cast<T*>(x.data_ptr())), apart(x.stride(-2)) {
        RINGSHARD_CHECK(x.stride(-1) == 1, "columns lie apart");
    }
    T* operator[](int64_t row) const { return first + row * apart; }
    T* first;
    int64_t apart;
};

// sums += weights * x
template <class T>
RINGSHARD_SIMD void add_products(float* __restrict sums, const float* __restrict weights,
                                 const T* __restrict x, int64_t width) {
    for (int64_t c = 0; c < width; ++c) sums[c] += weights[c] * load(x[c]);
}

template <class T>
RINGSHARD_SIMD void store_silu(T* __restrict y, const float* __restrict sums, int64_t width) {
    for (int64_t c = 0; c < width; ++c) store(y[c], sums[c] * sigmoid(sums[c]));
}

template <class T>
RINGSHARD_SIMD void store_sums(T* __restrict y, const float* __restrict sums, int64_t width) {
    for (int64_t c = 0; c < width; ++c) store(y[c], sums[c]);
}

// Turns sums into the gradient of the sums, from that of their silu.
RINGSHARD_SIMD void silu_gradient(float* __restrict sums, const float* __restrict dy,
                                  int64_t width) {
    for (int64_t c = 0; c < width; ++c) {
        const float s = sigmoid(sums[c]);
        sums[c] = dy[c] * s * (1.0F + sums[c] * (1.0F - s));
    }
}

// The weight of a conv as rows of taps: [taps, c], fp32.
at::Tensor rows_of_taps(const CausalConv& conv) {
    return conv.weight.to(at::kFloat).squeeze(1).t().contiguous();
}

// The bias, or zeros: [c], fp32.
at::Tensor bias_of(const CausalConv& conv) {
    if (conv.bias.defined()) return conv.bias.to(at::kFloat).contiguous();
    return at::zeros({conv.weight.size(0)}, conv.weight.options().dtype(at::kFloat));
}

// One task's columns of a conv.
template <class T>
struct Columns {
    Columns(const at::Tensor& x, const CausalConv& conv, const at::Tensor& rows,
            const at::Tensor& biases, int64_t begin)
        : stretches(conv.stretches),
          taps(rows.size(0)),
          first(begin),
          width(std::min(columns_per_task, x.size(1) - begin)),
          rows_of_x(x),
          rows_before(conv.before.flatten(0, 1)),
          weights(rows),
          bias(static_cast<const float*>(biases.data_ptr()) + begin) {}

    // Returns row `t` of stretch `s`, which lies before the stretch where t is negative.
    const T* row(size_t s, int64_t t) const {
        if (t >= 0) return rows_of_x[stretches[s].begin + t] + first;
        return rows_before[static_cast<int64_t>(s + 1) * (taps - 1) + t] + first;
    }
    void sum(size_t s, int64_t t, float* sums) const {
        std::copy_n(bias, width, sums);
        for (int64_t tap = 0; tap < taps; ++tap)
            add_products(sums, weights[tap] + first, row(s, t - taps + 1 + tap), width);
    }

    std::span<const Stretch> stretches;
    int64_t taps, first, width;
    Rows<T> rows_of_x, rows_before;
    Rows<float> weights;
    const float* bias;
};

template <class Work>
void for_columns(int64_t width, Work work) {
    const int64_t tasks = (width + columns_per_task - 1) / columns_per_task;
    at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) work(task * columns_per_task);
    });
}

void check(const at::Tensor& x, const CausalConv& conv) {
    RINGSHARD_CHECK(conv.weight.size(0) == x.size(1) && conv.before.is_contiguous() &&
                    conv.before.scalar_type() == x.scalar_type());
}

}  // namespace

at::Tensor causal_conv(const at::Tensor& x, const CausalConv& conv) {
    at::Tensor y = at::empty(x.sizes(), x.options());
    check(x, conv);
    const at::Tensor weights = rows_of_taps(conv);
    const at::Tensor bias = bias_of(conv);
    with_type(x, [&]<class T>(T*) {
        const Rows<T> rows_of_y(y);
        for_columns(x.size(1), [&](int64_t first) {
            const Columns<T> columns(x, conv, weights, bias, first);
            std::vector<float> sums(static_cast<size_t>(columns.width));
            for (size_t s = 0; s < conv.stretches.size(); ++s)
                for (int64_t t = 0; t < conv.stretches[s].length; ++t) {
                    columns.sum(s, t, sums.data());
                    T* const of_row = rows_of_y[conv.stretches[s].begin + t] + first;
                    if (conv.has_silu)
                        store_silu(of_row, sums.data(), columns.width);
                    else
                        store_sums(of_row, sums.data(), columns.width);
                }
        });
    });
    return y;
}

namespace {

// The gradients of one task's columns. Each row adds to the gradients of the rows that it is the
// sum of: none of these comes after it.
template <class T>
void columns_backward(const Columns<T>& columns, bool has_silu, const at::Tensor& dy,
                      const at::Tensor& dx, const at::Tensor& d_before, const at::Tensor& d_weights,
                      const at::Tensor& d_biases) {
    const Rows<const float> rows_of_dy(dy);
    const Rows<float> rows_of_dx(dx);
    const Rows<float> rows_before(d_before);
    const Rows<float> weight_gradients(d_weights);
    const auto [stretches, taps, first, width, x, before, weights, bias] = columns;
    float* const d_bias = static_cast<float*>(d_biases.data_ptr()) + first;
    std::vector<float> d_sums(static_cast<size_t>(width));
    for (size_t s = 0; s < stretches.size(); ++s) {
        const auto gradient_of = [&](int64_t t) {
            if (t >= 0) return rows_of_dx[stretches[s].begin + t] + first;
            return rows_before[static_cast<int64_t>(s + 1) * (taps - 1) + t] + first;
        };
        for (int64_t t = 0; t < stretches[s].length; ++t) {
            const float* const dy_row = rows_of_dy[stretches[s].begin + t] + first;
            if (has_silu) {
                columns.sum(s, t, d_sums.data());
                silu_gradient(d_sums.data(), dy_row, width);
            } else {
                std::copy_n(dy_row, width, d_sums.data());
            }
            for (int64_t c = 0; c < width; ++c) d_bias[c] += d_sums[static_cast<size_t>(c)];
            std::fill_n(gradient_of(t), width, 0.0F);
            for (int64_t tap = 0; tap < taps; ++tap) {
                const int64_t from = t - taps + 1 + tap;
                add_products(gradient_of(from), weights[tap] + first, d_sums.data(), width);
                add_products(weight_gradients[tap] + first, d_sums.data(), columns.row(s, from),
                             width);
            }
        }
    }
}

}  // namespace

at::Tensor causal_conv_backward(const at::Tensor& dy, const at::Tensor& x, const CausalConv& conv,
                                const at::Tensor& dx, const at::Tensor& d_weight,
                                const at::Tensor& d_bias) {
    at::Tensor d_before = at::zeros(conv.before.sizes(), dy.options());
    check(x, conv);
    const at::Tensor weights = rows_of_taps(conv);
    const at::Tensor bias = bias_of(conv);
    const at::Tensor d_weights = at::zeros(weights.sizes(), weights.options());
    const at::Tensor d_biases = at::zeros(bias.sizes(), bias.options());
    const at::Tensor rows_before = d_before.flatten(0, 1);
    with_type(x, [&]<class T>(T*) {
        for_columns(x.size(1), [&](int64_t first) {
            columns_backward(Columns<T>(x, conv, weights, bias, first), conv.has_silu, dy, dx,
                             rows_before, d_weights, d_biases);
        });
    });
    if (d_weight.defined()) d_weight.add_(d_weights.t().unsqueeze(1));
    if (d_bias.defined()) d_bias.add_(d_biases);
    return d_before;
}

}  // namespace ringshard::ops::cpu

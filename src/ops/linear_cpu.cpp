#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "backends.hpp"
#include "bf16_gemm.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/linear.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

template <class T>
RINGSHARD_SIMD void add_row(float* __restrict into, const T* __restrict from, int64_t width) {
    for (int64_t i = 0; i < width; ++i) into[i] += load(from[i]);
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

at::Tensor linear_backward_input(const at::Tensor& dy, const at::Tensor& weight) {
    // The sums are long where the output is much wider than the input: gate and up, and the head.
    const bool is_long = weight.size(0) >= 4 * weight.size(1);
    if (is_long && dy.scalar_type() == at::kBFloat16) return long_bf16_product(dy, weight);
    return at::mm(dy, weight);
}

void add_weight_gradient(const at::Tensor& d_weight, const at::Tensor& dy, const at::Tensor& x) {
    if (x.size(0) == 0) return;
    if (x.scalar_type() == at::kFloat)
        d_weight.addmm_(dy.t(), x);
    else
        add_bf16_product(d_weight, dy, x);
}

void add_bias_gradient(const at::Tensor& d_bias, const at::Tensor& dy) {
    const int64_t width = dy.size(1);
    const int64_t num_threads = at::get_num_threads();
    const at::Tensor partial = at::zeros({num_threads, width}, d_bias.options());
    with_type(dy, [&]<class T>(T*) {
        at::parallel_for(0, num_threads, 1, [&](int64_t first, int64_t last) {
            for (int64_t thread = first; thread < last; ++thread) {
                const RowRange rows = range_of_thread(thread, num_threads, dy.size(0));
                for (int64_t t = rows.begin; t < rows.end; ++t)
                    add_row(data<float>(partial) + thread * width, data<T>(dy) + t * width, width);
            }
        });
    });
    with_type(partial, [&]<class T>(T*) {
        for (int64_t thread = 0; thread < num_threads; ++thread)
            add_row(data<float>(d_bias), data<T>(partial) + thread * width, width);
    });
}

}  // namespace ringshard::ops::cpu

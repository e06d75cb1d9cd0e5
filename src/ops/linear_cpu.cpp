#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/linear.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {}  // namespace

at::Tensor linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
    at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
    if (x.size(0) == 0) return y;
    gemms.backend_of(kind_of(GemmPass::forward, weight, x)).multiply(y, x, weight.t(), bias);
    return y;
}

at::Tensor linear_add(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, const at::Tensor& addend, const at::Tensor& into) {
    return add_into(cpu::linear(gemms, x, weight, bias), addend, into);
}

at::Tensor linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                 const at::Tensor& weight) {
    at::Tensor dx = at::empty({dy.size(0), weight.size(1)}, dy.options());
    if (dy.size(0) == 0) return dx;
    gemms.backend_of(kind_of(GemmPass::input_gradient, weight, dy)).multiply(dx, dy, weight, {});
    return dx;
}

void add_linear(const Gemms& gemms, const at::Tensor& y, const at::Tensor& x,
                const at::Tensor& weight) {
    if (x.size(0) == 0) return;
    gemms.backend_of(kind_of(GemmPass::forward, weight, x)).accumulate(y, x, weight.t());
}

void add_linear_backward_input(const Gemms& gemms, const at::Tensor& dx, const at::Tensor& dy,
                               const at::Tensor& weight) {
    if (dy.size(0) == 0) return;
    gemms.backend_of(kind_of(GemmPass::input_gradient, weight, dy)).accumulate(dx, dy, weight);
}

void add_weight_gradient(const Gemms& gemms, const at::Tensor& d_weight, const at::Tensor& dy,
                         const at::Tensor& x, bool begins) {
    if (x.size(0) == 0) {
        if (begins) d_weight.zero_();
        return;
    }
    GemmBackend& backend = gemms.backend_of(kind_of(GemmPass::weight_gradient, d_weight, x));
    if (begins)
        backend.write_product(d_weight, dy.t(), x);
    else
        backend.add_product(d_weight, dy.t(), x);
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

#include <ATen/ops/empty.h>

#include "backends.hpp"
#include "gpu/state_kernels.hpp"
#include "gpu/tensors.hpp"
#include "ringshard/ops/device_copies.hpp"

namespace ringshard::ops::cuda {

using namespace gpu;

namespace {

// The stretch of each row, and the first rows of stretches.
struct Places {
    at::Tensor stretch_of_row;
    at::Tensor begins;
};
Places places_of(std::span<const Stretch> stretches, const at::Tensor& x) {
    std::vector<int64_t> of_row;
    std::vector<int64_t> begins;
    for (size_t stretch = 0; stretch < stretches.size(); ++stretch) {
        begins.push_back(stretches[stretch].begin);
        of_row.insert(of_row.end(), static_cast<size_t>(stretches[stretch].length),
                      static_cast<int64_t>(stretch));
    }
    begins.push_back(stretches.back().begin + stretches.back().length);
    RINGSHARD_CHECK(std::ssize(of_row) == x.size(0), "stretches that do not cover the rows");
    return {ops::on_device(of_row, x.device()), ops::on_device(begins, x.device())};
}

int64_t row_of(const at::Tensor& x) {
    RINGSHARD_CHECK(x.stride(1) == 1, "columns lie apart");
    return x.stride(0);
}

gpu::CausalConv work_of(const at::Tensor& x, const ops::CausalConv& conv, const Places& places) {
    RINGSHARD_CHECK(conv.weight.size(0) == x.size(1) &&
                    conv.before.scalar_type() == x.scalar_type() &&
                    conv.weight.scalar_type() == x.scalar_type() &&
                    (!conv.bias.defined() || conv.bias.scalar_type() == x.scalar_type()));
    return {.type = type_of(x),
            .x = x.data_ptr(),
            .before = data(conv.before),
            .weight = data(conv.weight),
            .bias = conv.bias.defined() ? data(conv.bias) : nullptr,
            .y = nullptr,
            .stretch_of_row = data<int64_t>(places.stretch_of_row),
            .begins = data<int64_t>(places.begins),
            .rows = x.size(0),
            .columns = x.size(1),
            .taps = conv.weight.size(2),
            .stretches = std::ssize(conv.stretches),
            .x_row = row_of(x),
            .has_silu = conv.has_silu};
}

}  // namespace

at::Tensor causal_conv(const at::Tensor& x, const ops::CausalConv& conv) {
    at::Tensor y = at::empty(x.sizes(), x.options());
    const Places places = places_of(conv.stretches, x);
    gpu::CausalConv work = work_of(x, conv, places);
    work.y = data(y);
    gpu::causal_conv(queue_of(x), work);
    return y;
}

at::Tensor causal_conv_backward(const at::Tensor& dy, const at::Tensor& x,
                                const ops::CausalConv& conv, const at::Tensor& dx,
                                const at::Tensor& d_weight, const at::Tensor& d_bias) {
    const Places places = places_of(conv.stretches, x);
    const gpu::CausalConv work = work_of(x, conv, places);
    const at::Tensor d_sums = at::empty(x.sizes(), dy.options());
    const at::Tensor of_ranges =
        at::empty({num_conv_ranges(work.rows), work.columns * work.taps}, dy.options());
    at::Tensor d_before = at::empty(conv.before.sizes(), dy.options());
    const Queue queue = queue_of(x);
    gpu::causal_conv_backward(queue, work,
                              {.dy = static_cast<const float*>(dy.data_ptr()),
                               .d_sums = data<float>(d_sums),
                               .dx = static_cast<float*>(dx.data_ptr()),
                               .d_before = data<float>(d_before),
                               .d_weight = data<float>(of_ranges),
                               .dy_row = row_of(dy),
                               .dx_row = row_of(dx)});
    if (d_weight.defined())
        add_rows(queue, data<float>(d_weight), data<float>(of_ranges), of_ranges.size(0),
                 of_ranges.size(1));
    if (d_bias.defined()) d_bias.add_(d_sums.sum({0}));
    return d_before;
}

}  // namespace ringshard::ops::cuda

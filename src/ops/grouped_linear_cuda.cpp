#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sort.h>

#include "backends.hpp"
#include "by_index.hpp"
#include "gpu_products.hpp"
#include "groups.hpp"
#include "ringshard/ops/device_copies.hpp"

namespace ringshard::ops::cuda {

// The kernels on the host, too, are those that multiply without a GPU.
at::Tensor grouped_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weights,
                          const std::vector<int64_t>& counts) {
    if (!x.is_cuda()) return cpu::grouped_linear(gemms, x, weights, counts);
    at::Tensor y = at::empty({x.size(0), weights.size(1)}, x.options());
    gemms.on_gpu().multiply_groups({GemmPass::forward, y, x, weights}, counts);
    return y;
}

at::Tensor grouped_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                         const at::Tensor& weights,
                                         const std::vector<int64_t>& counts) {
    if (!dy.is_cuda()) return cpu::grouped_linear_backward_input(gemms, dy, weights, counts);
    at::Tensor dx = at::empty({dy.size(0), weights.size(2)}, dy.options());
    gemms.on_gpu().multiply_groups({GemmPass::input_gradient, dy, dx, weights}, counts);
    return dx;
}

void add_grouped_weight_gradient(const Gemms& gemms, const at::Tensor& d_weights,
                                 const at::Tensor& dy, const at::Tensor& x,
                                 const std::vector<int64_t>& counts, bool begins) {
    if (!x.is_cuda())
        return cpu::add_grouped_weight_gradient(gemms, d_weights, dy, x, counts, begins);
    if (begins) begin_empty_groups(d_weights, counts);
    // A kernel for many terms gave a wrong sum over an expert's few rows (fp32, H200).
    constexpr int64_t many = 64;
    gemms.on_gpu().multiply_groups(
        {GemmPass::weight_gradient, dy, x, d_weights, begins ? 0.0F : 1.0F}, counts, many);
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        if (count >= many) return;
        cuda::add_weight_gradient(gemms, d_weights.select(0, group), dy.narrow(0, begin, count),
                                  x.narrow(0, begin, count), begins);
    });
}

at::Tensor take_rows(const at::Tensor& x, const at::Tensor& places) {
    return take_rows_by_index(x, places);
}

at::Tensor sum_of_experts(const at::Tensor& rows, const at::Tensor& places) {
    return sum_of_experts_by_index(rows, places);
}

// The host waits for the counts: it starts a product for each expert.
ExpertRows rows_by_expert(const at::Tensor& experts, int64_t num_experts, int64_t) {
    constexpr bool stable = true;
    const at::Tensor flat = experts.flatten();
    const at::Tensor choices = std::get<1>(at::sort(flat, stable, 0, false));
    const at::Tensor places = at::empty_like(choices);
    places.scatter_(0, choices, at::arange(choices.numel(), choices.options()));
    const at::Tensor counts = on_host(at::bincount(flat, {}, num_experts));
    const auto* const first = counts.const_data_ptr<int64_t>();
    return {choices.div(experts.size(1), "floor"),
            choices,
            places.view(experts.sizes()),
            {first, first + num_experts}};
}

std::vector<int64_t> counts_on_host(const at::Tensor& counts,
                                    const std::vector<int64_t>& expected) {
    return cpu::counts_on_host(on_host(counts), expected);
}

// The host makes the order, since it has to read the counts anyway.
ArrivedRows arrived_rows(const at::Tensor& counts, const std::vector<int64_t>& expected) {
    ArrivedRows rows = cpu::arrived_rows(on_host(counts), expected);
    rows.by_expert = rows.by_expert.to(counts.device());
    rows.by_rank = rows.by_rank.to(counts.device());
    return rows;
}

}  // namespace ringshard::ops::cuda

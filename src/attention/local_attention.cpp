#include "local_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "ringshard/ops/backend.hpp"

namespace ringshard::attention {

constexpr bool has_gpu_kernels = RINGSHARD_HAS_CUDA;

Partial make_partial(const Heads& heads, const Plan& plan) {
    const auto sizes = heads.q.sizes();
    const auto fp32 = heads.q.options().dtype(at::kFloat);
    // What is written and not merged may be left as it is.
    if (plan.meets_once)
        return {at::empty(sizes, heads.q.options()), at::empty({sizes[0], sizes[1]}, fp32)};
    constexpr double nothing_seen = -std::numeric_limits<double>::infinity();
    return {at::zeros(sizes, fp32), at::full({sizes[0], sizes[1]}, nothing_seen, fp32)};
}

void attend(const Heads& heads, std::span<const Tile> tiles, Into into, Partial& partial) {
    if constexpr (has_gpu_kernels)
        if (ops::uses_gpu_kernels(heads.q)) return cuda::attend(heads, tiles, into, partial);
    cpu::attend(heads, tiles, into, partial);
}

void attend_backward(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                     std::span<const Tile> tiles, Into into, const HeadGradients& gradients,
                     Kernels kernels) {
    if constexpr (has_gpu_kernels)
        if (ops::uses_gpu_kernels(heads.q))
            return cuda::attend_backward(d_out, heads, whole, tiles, into, gradients, kernels);
    cpu::attend_backward(d_out, heads, whole, tiles, into, gradients, kernels);
}

std::set<std::string> operators_of(const Plan& plan, at::ScalarType type, int64_t head_dim,
                                   at::Device device) {
    if constexpr (has_gpu_kernels)
        if (device.is_cuda()) return cuda::operators_of(plan, type, head_dim, device);
    return {};
}

}  // namespace ringshard::attention

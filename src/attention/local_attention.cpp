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
    // Tiles that overwrite their destination need no initial values.
    if (plan.meets_once)
        return {at::empty(sizes, plan.never_merges() ? heads.q.options() : fp32),
                at::empty({sizes[0], sizes[1]}, fp32)};
    constexpr double nothing_seen = -std::numeric_limits<double>::infinity();
    return {at::zeros(sizes, fp32), at::full({sizes[0], sizes[1]}, nothing_seen, fp32)};
}

LocalAttention local_attention_of(const at::Tensor& heads, c10::DeviceType planned) {
    if constexpr (has_gpu_kernels)
        if (ops::uses_gpu_kernels(heads)) return {cuda::attend, cuda::attend_backward, true};
    if (!heads.is_meta()) return {cpu::attend, cpu::attend_backward};
    return {meta::attend, planned == c10::DeviceType::CUDA ? meta::attend_backward_of_cuda
                                                           : meta::attend_backward_of_cpu};
}

void prepare_plans(std::vector<Plan>& plans, at::Device device) {
    if constexpr (has_gpu_kernels) {
        if (!ops::uses_gpu_kernels(at::empty({0}, at::TensorOptions(device)))) return;
        for (Plan& plan : plans) {
            plan.prepared.steps.clear();
            for (const std::vector<Tile>& tiles : plan.steps)
                plan.prepared.steps.push_back(cuda::prepare(tiles, device));
        }
    }
}

void prepare_for_recording(at::Device device) {
    if constexpr (has_gpu_kernels)
        if (device.is_cuda()) cuda::prepare_for_recording(device);
}

ops::AttentionInput input_of(const Heads& heads, const TileGroup& group) {
    return {query_rows(heads.q, group), key_rows(heads.k, group), key_rows(heads.v, group),
            group.first.band, heads.form};
}

std::set<std::string> operators_of(const Plan& plan, at::ScalarType type, const HeadForm& form,
                                   at::Device device) {
    if constexpr (has_gpu_kernels)
        if (device.is_cuda()) return cuda::operators_of(plan, type, form, device);
    return {};
}

}  // namespace ringshard::attention

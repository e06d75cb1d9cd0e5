// Attention on meta tensors: it allocates the memory that the operators of a device do, and
// computes nothing.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <array>

#include "local_attention.hpp"
#include "ringshard/ops/merge_attention.hpp"

namespace ringshard::attention::meta {

void attend(const Heads& heads, const StepTiles& step, Into into, Partial& partial) {
    for (const TileGroup& group : group_tiles(step.tiles)) {
        const at::Tensor q = query_rows(heads.q, group);
        const at::Tensor out = at::empty(q.sizes(), q.options());
        const at::Tensor lse = at::empty(q.sizes().slice(0, 3), q.options().dtype(at::kFloat));
        if (into == Into::sums)
            ops::merge_attention({query_rows(partial.out, group), query_rows(partial.lse, group)},
                                 {out, lse});
    }
}

namespace {

// The gradients that LibTorch's operators give back, beside their input in the type in which they
// compute.
void allocate_gradients(const at::Tensor& d_out, const ops::AttentionInput& input,
                        const at::Tensor& out, at::ScalarType type) {
    const std::array operands{d_out.to(type), input.q.to(type), input.k.to(type), input.v.to(type),
                              out.to(type)};
    const at::Tensor dq = at::empty_like(operands[1]);
    const at::Tensor dk = at::empty_like(operands[2]);
    const at::Tensor dv = at::empty_like(operands[3]);
}

}  // namespace

void attend_backward_of_cpu(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                            const StepTiles& step, Into, const HeadGradients&) {
    for (const TileGroup& group : group_tiles(step.tiles)) {
        const ops::AttentionInput input = input_of(heads, group);
        if (!ops::suits_block_attention_backward(input))
            allocate_gradients(query_rows(d_out, group), input, query_rows(whole.out, group),
                               cpu::type_of_backward(heads, group));
    }
}

void attend_backward_of_cuda(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                             const StepTiles& step, Into, const HeadGradients&) {
    for (const TileGroup& group : group_tiles(step.tiles)) {
        const ops::AttentionInput input = input_of(heads, group);
        const at::Tensor workspace =
            at::empty({workspace_of_cuda_backward(input)}, input.q.options().dtype(at::kByte));
        allocate_gradients(query_rows(d_out, group), input, query_rows(whole.out, group),
                           input.q.scalar_type());
    }
}

int64_t workspace_of_cuda_backward(const ops::AttentionInput& input) {
    constexpr int64_t fp32_bytes = 4;
    const int64_t query_heads = input.q.size(2);
    const int64_t key_heads = input.k.size(2);
    const int64_t rows_and_heads = input.q.numel() / input.q.size(3);
    const int64_t sums = fp32_bytes * (input.q.numel() + rows_and_heads);
    const int64_t keys_of_all_heads = input.k.numel() / key_heads * query_heads;
    const int64_t spread =
        query_heads == key_heads ? 0 : 2 * input.k.element_size() * keys_of_all_heads;
    return sums + spread;
}

}  // namespace ringshard::attention::meta

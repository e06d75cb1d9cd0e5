#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>

#include "local_attention.hpp"
#include "ringshard/ops/merge_attention.hpp"

namespace ringshard::attention::cpu {

namespace {

// [n, length, heads, d] as LibTorch's operators want it: [n, heads, length, d]. A view.
at::Tensor heads_first(const at::Tensor& rows) { return rows.transpose(1, 2); }

}  // namespace

void attend(const Heads& heads, const StepTiles& step, Into into, Partial& partial) {
    for (const TileGroup& group : group_tiles(step.tiles)) {
        const ops::AttentionInput input = input_of(heads, group);
        const at::Tensor out_rows = query_rows(partial.out, group);
        const at::Tensor lse_rows = query_rows(partial.lse, group);
        if (into == Into::fresh) {
            ops::block_attention(input, out_rows, lse_rows);
            continue;
        }
        const auto fp32 = input.q.options().dtype(at::kFloat);
        const at::Tensor out = at::empty(input.q.sizes(), fp32);
        const at::Tensor lse = at::empty(input.q.sizes().slice(0, 3), fp32);
        ops::block_attention(input, out, lse);
        ops::merge_attention({out_rows, lse_rows}, {out, lse});
    }
}

namespace {

// rows [n, length, heads, d], a view; more as the operator gives it, with the heads first.
void put(const at::Tensor& rows, const at::Tensor& more, Into into) {
    if (into == Into::sums)
        rows.add_(more.transpose(1, 2));
    else
        rows.copy_(more.transpose(1, 2));
}

}  // namespace

at::ScalarType type_of_backward(const Heads& heads, const TileGroup& group) {
    constexpr int64_t short_row = 512;
    return group.first.num_k < short_row ? at::kFloat : heads.q.scalar_type();
}

void attend_backward(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                     const StepTiles& step, Into into, const HeadGradients& gradients) {
    for (const TileGroup& group : group_tiles(step.tiles)) {
        const ops::AttentionInput input = input_of(heads, group);
        const ops::AttentionGradients into_rows{query_rows(gradients.dq, group),
                                                key_rows(gradients.dk, group),
                                                key_rows(gradients.dv, group), into == Into::sums};
        const at::Tensor d_out_rows = query_rows(d_out, group);
        const at::Tensor out_rows = query_rows(whole.out, group);
        const at::Tensor lse_rows = query_rows(whole.lse, group);
        if (ops::suits_block_attention_backward(input)) {
            ops::block_attention_backward(input, d_out_rows, out_rows, lse_rows, into_rows);
            continue;
        }
        const at::ScalarType work_type = type_of_backward(heads, group);
        const auto prepare = [&](const at::Tensor& rows) {
            return heads_first(rows.to(work_type));
        };
        const auto [dq_rows, dk_rows, dv_rows] =
            at::_scaled_dot_product_flash_attention_for_cpu_backward(
                prepare(d_out_rows), prepare(input.q), prepare(input.k), prepare(input.v),
                prepare(out_rows), heads_first(lse_rows), 0.0, input.band == ops::causal,
                std::nullopt, input.form.scale_of(input.q.size(3)));
        put(into_rows.dq, dq_rows, into);
        put(into_rows.dk, dk_rows, into);
        put(into_rows.dv, dv_rows, into);
    }
}

}  // namespace ringshard::attention::cpu

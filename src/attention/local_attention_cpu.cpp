#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "gpu_room.hpp"
#include "local_attention.hpp"
#include "ringshard/ops/block_attention.hpp"
#include "ringshard/ops/merge_attention.hpp"
#include "tile_group.hpp"

namespace ringshard::attention::cpu {

namespace {

// [n, length, heads, d] as LibTorch's operators want it: [n, heads, length, d]. A view.
at::Tensor heads_first(const at::Tensor& rows) { return rows.transpose(1, 2); }

ops::AttentionInput input_of(const Heads& heads, const TileGroup& group) {
    return {query_rows(heads.q, group), key_rows(heads.k, group), key_rows(heads.v, group),
            group.first.diagonal};
}

// Out and log-sum-exp with the heads first. LibTorch's operator knows no tensors without numbers.
std::tuple<at::Tensor, at::Tensor> attention_of(const ops::AttentionInput& input) {
    const auto fp32 = input.q.options().dtype(at::kFloat);
    const bool is_block = ops::suits_block_attention(input);
    if (!is_block && !input.q.is_meta())
        return at::_scaled_dot_product_flash_attention_for_cpu(
            heads_first(input.q), heads_first(input.k), heads_first(input.v), 0.0, input.diagonal);
    const at::Tensor out = at::empty(input.q.sizes(), is_block ? fp32 : input.q.options());
    const at::Tensor lse = at::empty(input.q.sizes().slice(0, 3), fp32);
    if (is_block) ops::block_attention(input, out, lse);
    return {heads_first(out), heads_first(lse)};
}

// Gradients of q, k and v with the heads first.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, bool diagonal) {
    if (!q.is_meta())
        return at::_scaled_dot_product_flash_attention_for_cpu_backward(d_out, q, k, v, out, lse,
                                                                        0.0, diagonal);
    return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

}  // namespace

void attend(const Heads& heads, std::span<const Tile> tiles, Into into, Partial& partial) {
    for (const TileGroup& group : group_tiles(tiles)) {
        const ops::AttentionInput input = input_of(heads, group);
        const at::Tensor out_rows = query_rows(partial.out, group);
        const at::Tensor lse_rows = query_rows(partial.lse, group);
        if (into == Into::fresh && ops::suits_block_attention(input)) {
            ops::block_attention(input, out_rows, lse_rows);
            continue;
        }
        const auto [out, lse] = attention_of(input);
        if (into == Into::sums) {
            ops::merge_attention({out_rows, lse_rows}, {out.transpose(1, 2), lse.transpose(1, 2)});
        } else {
            out_rows.copy_(out.transpose(1, 2));
            lse_rows.copy_(lse.transpose(1, 2));
        }
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

void attend_backward(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                     std::span<const Tile> tiles, Into into, const HeadGradients& gradients,
                     Kernels kernels) {
    // LibTorch's bf16 backward is many times slower than fp32's on short rows.
    constexpr int64_t short_row = 512;
    const at::ScalarType type = heads.q.scalar_type();
    const bool is_here = kernels == Kernels::of_host;
    for (const TileGroup& group : group_tiles(tiles)) {
        const ops::AttentionInput input = input_of(heads, group);
        const ops::AttentionGradients into_rows{query_rows(gradients.dq, group),
                                                key_rows(gradients.dk, group),
                                                key_rows(gradients.dv, group), into == Into::sums};
        const at::Tensor d_out_rows = query_rows(d_out, group);
        const at::Tensor out_rows = query_rows(whole.out, group);
        const at::Tensor lse_rows = query_rows(whole.lse, group);
        if (is_here && ops::suits_block_attention_backward(input)) {
            ops::block_attention_backward(input, d_out_rows, out_rows, lse_rows, into_rows);
            continue;
        }
        const at::Tensor room = is_here ? at::Tensor() : room_of_gpu_backward(input);
        const auto work_type = is_here && group.first.num_k < short_row ? at::kFloat : type;
        const auto prepare = [&](const at::Tensor& rows) {
            return heads_first(rows.to(work_type));
        };
        const auto [dq_rows, dk_rows, dv_rows] = attention_backward(
            prepare(d_out_rows), prepare(input.q), prepare(input.k), prepare(input.v),
            prepare(out_rows), heads_first(lse_rows), input.diagonal);
        put(into_rows.dq, dq_rows, into);
        put(into_rows.dk, dk_rows, into);
        put(into_rows.dv, dv_rows, into);
    }
}

}  // namespace ringshard::attention::cpu

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "gpu_room.hpp"
#include "local_attention.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/block_attention.hpp"
#include "tile_group.hpp"

namespace ringshard::attention {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// [n, length, heads, d] as LibTorch's operators want it: [n, heads, length, d]. A view.
at::Tensor heads_first(const at::Tensor& rows) { return rows.transpose(1, 2); }

ops::AttentionInput input_of(const Heads& heads, const TileGroup& group) {
    return {query_rows(heads.q, group), key_rows(heads.k, group), key_rows(heads.v, group),
            group.first.diagonal};
}

// out and lse of a query and a head, from two sets of keys: the weights are the shares of the sums
// of exponentials.
RINGSHARD_SIMD void merge_row(float* __restrict out, const float* __restrict more, float keep,
                              float take, int64_t width) {
    for (int64_t i = 0; i < width; ++i) out[i] = keep * out[i] + take * more[i];
}

// partial [n, length, h, d] and [n, length, h] are views; more_* are results of the operator.
void merge(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& more_out,
           const at::Tensor& more_lse) {
    const at::Tensor more = more_out.to(at::kFloat).contiguous();
    const at::Tensor more_sum = more_lse.contiguous();
    const int64_t length = out.size(1);
    const int64_t heads = out.size(2);
    const int64_t width = out.size(3);
    if (out.is_meta()) return;
    at::parallel_for(0, out.size(0) * length, 64, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t n = row / length;
            const int64_t t = row % length;
            float* const out_row = out.data_ptr<float>() + n * out.stride(0) + t * out.stride(1);
            float* const lse_row = lse.data_ptr<float>() + n * lse.stride(0) + t * lse.stride(1);
            const float* const more_row = more.data_ptr<float>() + row * heads * width;
            const float* const more_lse_row = more_sum.data_ptr<float>() + row * heads;
            for (int64_t h = 0; h < heads; ++h) {
                const float largest = std::max(lse_row[h], more_lse_row[h]);
                const float keep = std::exp(lse_row[h] - largest);
                const float take = std::exp(more_lse_row[h] - largest);
                const float sum = keep + take;
                merge_row(out_row + h * width, more_row + h * width, keep / sum, take / sum, width);
                lse_row[h] = largest + std::log(sum);
            }
        }
    });
}

}  // namespace

Partial make_partial(const Heads& heads, const Plan& plan) {
    const auto sizes = heads.q.sizes();
    const auto fp32 = heads.q.options().dtype(at::kFloat);
    // What is written and not merged may be left as it is.
    if (plan.meets_once)
        return {at::empty(sizes, heads.q.options()), at::empty({sizes[0], sizes[1]}, fp32)};
    return {at::zeros(sizes, fp32), at::full({sizes[0], sizes[1]}, minus_infinity, fp32)};
}

namespace {

// Out and log-sum-exp with the heads first. LibTorch's operator knows no tensors without numbers.
std::tuple<at::Tensor, at::Tensor> attention_of(const ops::AttentionInput& input) {
    if (!input.q.is_meta())
        return at::_scaled_dot_product_flash_attention_for_cpu(
            heads_first(input.q), heads_first(input.k), heads_first(input.v), 0.0, input.diagonal);
    const auto rows = input.q.sizes().slice(0, 3);
    return {heads_first(at::empty(input.q.sizes(), input.q.options())),
            heads_first(at::empty(rows, input.q.options().dtype(at::kFloat)))};
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
        const auto [out, lse] = attention_of(input);
        if (into == Into::sums) {
            merge(out_rows, lse_rows, out.transpose(1, 2), lse.transpose(1, 2));
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
        if (is_here && ops::suits_block_attention(input)) {
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

}  // namespace ringshard::attention

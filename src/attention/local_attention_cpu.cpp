#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "local_attention.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/simd.hpp"
#include "tile_group.hpp"

namespace ringshard::attention {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// [n, length, heads, d] as LibTorch's operators want it: [n, heads, length, d]. A view.
at::Tensor heads_first(const at::Tensor& rows) { return rows.transpose(1, 2); }

// Does every query meet keys in one tile only? Then no results need to be merged.
bool touches_queries_once(const Plan& plan) {
    std::vector<bool> touched(static_cast<size_t>(plan.num_tokens));
    for (const auto& tiles : plan.steps) {
        for (const Tile& tile : tiles) {
            if (touched[static_cast<size_t>(tile.q)]) return false;
            std::fill_n(touched.begin() + tile.q, tile.num_q, true);
        }
    }
    return true;
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
    // What is not merged is written, not added to; so it may be left as it is.
    if (touches_queries_once(plan))
        return {at::empty(sizes, heads.q.options()), at::empty({sizes[0], sizes[1]}, fp32), false};
    return {at::zeros(sizes, fp32), at::full({sizes[0], sizes[1]}, minus_infinity, fp32), true};
}

void attend(const Heads& heads, std::span<const Tile> tiles, Partial& partial) {
    for (const TileGroup& group : group_tiles(tiles)) {
        const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
            heads_first(query_rows(heads.q, group)), heads_first(key_rows(heads.k, group)),
            heads_first(key_rows(heads.v, group)), 0.0, group.first.diagonal);
        const at::Tensor out_rows = query_rows(partial.out, group);
        const at::Tensor lse_rows = query_rows(partial.lse, group);
        if (partial.merges) {
            merge(out_rows, lse_rows, out.transpose(1, 2), lse.transpose(1, 2));
        } else {
            out_rows.copy_(out.transpose(1, 2));
            lse_rows.copy_(lse.transpose(1, 2));
        }
    }
}

void attend_backward(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                     std::span<const Tile> tiles, const at::Tensor& dq, const at::Tensor& dk,
                     const at::Tensor& dv) {
    // LibTorch's bf16 backward is many times slower than fp32's on short rows.
    constexpr int64_t short_row = 512;
    const at::ScalarType type = heads.q.scalar_type();
    for (const TileGroup& group : group_tiles(tiles)) {
        const auto work_type = group.first.num_k < short_row ? at::kFloat : type;
        const auto prepare = [&](const at::Tensor& rows) {
            return heads_first(rows.to(work_type));
        };
        const auto [dq_rows, dk_rows, dv_rows] =
            at::_scaled_dot_product_flash_attention_for_cpu_backward(
                prepare(query_rows(d_out, group)), prepare(query_rows(heads.q, group)),
                prepare(key_rows(heads.k, group)), prepare(key_rows(heads.v, group)),
                prepare(query_rows(whole.out, group)), heads_first(query_rows(whole.lse, group)),
                0.0, group.first.diagonal);
        query_rows(dq, group).add_(dq_rows.transpose(1, 2));
        key_rows(dk, group).add_(dk_rows.transpose(1, 2));
        key_rows(dv, group).add_(dv_rows.transpose(1, 2));
    }
}

}  // namespace ringshard::attention

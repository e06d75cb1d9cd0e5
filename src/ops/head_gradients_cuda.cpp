#include "ringshard/ops/head_gradients.hpp"

#include <ATen/ops/empty.h>

#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops {

namespace {

gpu::HeadGradients::Part part_of(const at::Tensor& heads) {
    RINGSHARD_CHECK(heads.stride(3) == 1);
    return {heads.data_ptr(), heads.stride(0), heads.stride(1), heads.stride(2)};
}

// Returns false if the heads do not suit the kernel.
bool put_in_one_pass(const HeadGradientRows& work) {
    const RopeTable* const rope = work.rope;
    if (rope != nullptr && (rope->is_interleaved || 2 * rope->cosine.size(1) != work.dq.size(3)))
        return false;
    gpu::HeadGradients heads{.from_type = gpu::type_of(work.dq),
                             .type = gpu::type_of(work.into),
                             .dq = part_of(work.dq),
                             .dk = part_of(work.dk),
                             .dv = part_of(work.dv),
                             .into = gpu::data(work.into),
                             .cosine = rope ? gpu::data<float>(rope->cosine) : nullptr,
                             .sine = rope ? gpu::data<float>(rope->sine) : nullptr,
                             .sums = nullptr,
                             .n = work.dq.size(0),
                             .t = work.dq.size(1),
                             .query_heads = work.dq.size(2),
                             .key_heads = work.dk.size(2),
                             .head_dim = work.dq.size(3),
                             .first_row = work.first_row,
                             .row_distance = work.row_distance};
    const gpu::Queue queue = gpu::queue_of(work.into);
    if (!work.d_bias.defined()) return gpu::put_head_gradients(queue, heads);
    const int64_t ranges = gpu::num_token_ranges(heads);
    const int64_t width = work.into.size(1);
    const at::Tensor sums = at::empty({ranges, width}, work.d_bias.options());
    heads.sums = gpu::data<float>(sums);
    if (!gpu::put_head_gradients(queue, heads)) return false;
    gpu::add_rows(queue, gpu::data<float>(work.d_bias), heads.sums, ranges, width);
    return true;
}

void put_row_by_row(const HeadGradientRows& work) {
    const int64_t length = work.dq.size(1);
    for (int64_t i = 0; i < work.dq.size(0); ++i) {
        const auto rows_of = [&](const at::Tensor& all) {
            return all.narrow(0, work.first_row + i * work.row_distance, length);
        };
        const at::Tensor rows = rows_of(work.into);
        int64_t column = 0;
        for (const at::Tensor& heads : {work.dq, work.dk, work.dv}) {
            const int64_t width = heads.size(2) * heads.size(3);
            rows.narrow(1, column, width)
                .unflatten(1, {heads.size(2), heads.size(3)})
                .copy_(heads.select(0, i));
            column += width;
        }
        if (const RopeTable* const table = work.rope)
            rope(rows, work.dq.size(2) + work.dk.size(2),
                 {rows_of(table->cosine), rows_of(table->sine), table->head_dim,
                  table->is_interleaved},
                 Turn::backward);
        add_bias_gradient(work.d_bias, rows);
    }
}

}  // namespace

void put_head_gradients(const HeadGradientRows& work) {
    if (!put_in_one_pass(work)) put_row_by_row(work);
}

}  // namespace ringshard::ops

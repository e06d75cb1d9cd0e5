#include <ATen/ops/empty.h>

#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

using namespace gpu;

ops::RopeTable make_rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies,
                               double scale) {
    const int64_t tokens = positions.numel();
    const int64_t half = inverse_frequencies.numel();
    ops::RopeTable table{at::empty({tokens, half}, inverse_frequencies.options()),
                         at::empty({tokens, half}, inverse_frequencies.options())};
    gpu::make_rope_table(queue_of(positions),
                         {.positions = data<int64_t>(positions),
                          .inverse_frequencies = data<float>(inverse_frequencies),
                          .cosine = data<float>(table.cosine),
                          .sine = data<float>(table.sine),
                          .tokens = tokens,
                          .half = half,
                          .scale = static_cast<float>(scale)});
    return table;
}

void rope(const at::Tensor& heads, int64_t num_heads, const ops::RopeTable& table, Turn turn) {
    const int64_t half = table.cosine.size(1);
    const int64_t head_dim = table.head_width();
    RINGSHARD_CHECK(2 * half <= head_dim && num_heads * head_dim <= heads.size(1) &&
                    table.cosine.size(0) == heads.size(0));
    gpu::rope(queue_of(heads), {.type = type_of(heads),
                                .heads = data(heads),
                                .cosine = data<float>(table.cosine),
                                .sine = data<float>(table.sine),
                                .tokens = heads.size(0),
                                .num_heads = num_heads,
                                .half = half,
                                .head_dim = head_dim,
                                .is_interleaved = table.is_interleaved,
                                .row = heads.size(1),
                                .sign = turn == Turn::forward ? 1.0F : -1.0F});
}

}  // namespace ringshard::ops::cuda

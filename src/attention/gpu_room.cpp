#include "gpu_room.hpp"

#include <ATen/ops/empty.h>

namespace ringshard::attention {

at::Tensor room_of_gpu_backward(const ops::AttentionInput& input) {
    if (!input.q.is_meta()) return {};
    constexpr int64_t fp32_bytes = 4;
    const int64_t query_heads = input.q.size(2);
    const int64_t key_heads = input.k.size(2);
    const int64_t rows_and_heads = input.q.numel() / input.q.size(3);
    const int64_t sums = fp32_bytes * (input.q.numel() + rows_and_heads);
    const int64_t keys_of_all_heads = input.k.numel() / key_heads * query_heads;
    const int64_t spread =
        query_heads == key_heads ? 0 : 2 * input.k.element_size() * keys_of_all_heads;
    return at::empty({sums + spread}, input.q.options().dtype(at::kByte));
}

}  // namespace ringshard::attention

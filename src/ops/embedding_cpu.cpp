#include <ATen/ops/index_select.h>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/embedding.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

template <class T>
RINGSHARD_SIMD void add_part(float* __restrict into, const T* __restrict from, int64_t width) {
    for (int64_t i = 0; i < width; ++i) into[i] += load(from[i]);
}

}  // namespace

at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table) {
    return at::index_select(table, 0, tokens);
}

void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, const at::Tensor& d_table,
                        std::optional<int64_t> left_out) {
    // A token may occur often, so threads share columns and not rows.
    const int64_t width = dy.size(1);
    constexpr int64_t columns_per_task = 64;
    const int64_t num_tasks = (width + columns_per_task - 1) / columns_per_task;
    with_type(dy, [&]<class T>(T*) {
        at::parallel_for(0, num_tasks, grain(columns_per_task * dy.size(0)),
                         [&](int64_t first, int64_t last) {
                             const int64_t begin = first * columns_per_task;
                             const int64_t end = std::min(width, last * columns_per_task);
                             for (int64_t t = 0; t < dy.size(0); ++t) {
                                 const int64_t token = data<int64_t>(tokens)[t];
                                 if (token == left_out) continue;
                                 add_part(data<float>(d_table) + token * width + begin,
                                          data<T>(dy) + t * width + begin, end - begin);
                             }
                         });
    });
}

}  // namespace ringshard::ops::cpu

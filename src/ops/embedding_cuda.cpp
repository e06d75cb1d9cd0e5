#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/sort.h>

#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

using namespace gpu;

at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table) {
    return at::index_select(table, 0, tokens);
}

void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, const at::Tensor& d_table,
                        std::optional<int64_t> left_out) {
    constexpr bool stable = true;
    const auto [sorted, places] = at::sort(tokens, stable, 0, false);
    const int64_t teams = (dy.size(0) + rows_of_embedding_team - 1) / rows_of_embedding_team;
    const at::Tensor partial = at::empty({teams, dy.size(1)}, dy.options().dtype(at::kFloat));
    gpu::embedding_backward(queue_of(dy), {.type = type_of(dy),
                                           .dy = data(dy),
                                           .sorted_tokens = data<int64_t>(sorted),
                                           .places = data<int64_t>(places),
                                           .d_table = data<float>(d_table),
                                           .partial = data<float>(partial),
                                           .tokens = dy.size(0),
                                           .width = dy.size(1),
                                           .left_out = left_out.value_or(-1)});
}

}  // namespace ringshard::ops::cuda

#include "compare.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

template <class T>
void merge(int64_t width) {
    constexpr int64_t n = 2;
    constexpr int64_t t = 3;
    constexpr int64_t heads = 2;
    compare(named<T>("merge_attention", width), [&](const Queue& queue, Memory& memory) {
        merge_attention(queue, {.type = number_type<T>,
                                .out = memory.numbers<float>(n * t * heads * width),
                                .lse = memory.numbers<float>(n * t * heads),
                                .more_out = memory.numbers<T>(n * t * heads * width),
                                .more_lse = memory.numbers<float>(n * heads * t),
                                .n = n,
                                .t = t,
                                .heads = heads,
                                .width = width,
                                .out_stride_n = t * heads * width,
                                .out_stride_t = heads * width,
                                .lse_stride_n = t * heads,
                                .lse_stride_t = heads,
                                .more_lse_stride_n = heads * t,
                                .more_lse_stride_t = 1,
                                .more_lse_stride_h = t});
    });
}

}  // namespace

void attention_cases(Part part) {
    for_types(part, [](auto* type) { merge<std::remove_pointer_t<decltype(type)>>(64); });
}

}  // namespace ringshard::test

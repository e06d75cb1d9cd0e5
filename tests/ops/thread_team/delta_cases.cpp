#include "compare.hpp"
#include "state_kernels.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

// Stretches of two and of three chunks.
constexpr int64_t stretches = 2;
constexpr int64_t chunks = 5;
constexpr int64_t heads = 2;

// Two groups of columns, of which the second is not full.
void walk(bool backwards, int64_t dk, int64_t decays) {
    constexpr int64_t tokens = 8;
    constexpr int64_t columns = 40;
    compare("delta_walk", [&](const Queue& queue, Memory& memory) {
        delta_walk(queue, {.reader = memory.numbers<float>(chunks * heads * tokens * dk, 0.1F),
                           .writer = memory.numbers<float>(chunks * heads * tokens * dk, 0.1F),
                           .whole = memory.numbers<float>(chunks * heads * decays, 0.1F),
                           .values = memory.numbers<float>(chunks * heads * tokens * columns),
                           .added = backwards ? memory.numbers<float>(chunks * heads * dk * columns)
                                              : nullptr,
                           .states = memory.unset<float>(chunks * heads * dk * columns),
                           .new_values = memory.unset<float>(chunks * heads * tokens * columns),
                           .last = memory.numbers<float>(stretches * heads * dk * columns),
                           .chunk_begins = memory.values<int64_t>({0, 3, chunks}),
                           .stretches = stretches,
                           .heads = heads,
                           .tokens = tokens,
                           .dk = dk,
                           .columns = columns,
                           .decays = decays,
                           .sign = backwards ? 1.0F : -1.0F,
                           .backwards = backwards});
    });
}

void additive_walk(bool backwards, int64_t size) {
    compare("state_walk", [&](const Queue& queue, Memory& memory) {
        state_walk(queue, {.whole = memory.numbers<float>(chunks * heads, 0.1F),
                           .added = memory.numbers<float>(chunks * heads * size),
                           .states = memory.unset<float>(chunks * heads * size),
                           .last = memory.numbers<float>(stretches * heads * size),
                           .chunk_begins = memory.values<int64_t>({0, 3, chunks}),
                           .stretches = stretches,
                           .heads = heads,
                           .size = size,
                           .backwards = backwards});
    });
}

void inverse(int64_t size) {
    constexpr int64_t count = 3;
    compare("invert_unit_triangles", [&](const Queue& queue, Memory& memory) {
        invert_unit_triangles(queue,
                              {.below_diagonal = memory.numbers<float>(count * size * size, 0.2F),
                               .inverse = memory.unset<float>(count * size * size),
                               .count = count,
                               .size = size});
    });
}

// Rows of two stretches, with other numbers between them.
template <class T>
void convolution(int64_t columns, bool has_silu, int64_t taps = 4) {
    constexpr int64_t rows = 7;
    const int64_t row = columns + 3;
    compare(named<T>(has_silu ? "causal_conv" : "causal_conv without SiLU", columns),
            [&](const Queue& queue, Memory& memory) {
                const CausalConv forward{
                    .type = number_type<T>,
                    .x = memory.numbers<T>(rows * row),
                    .before = memory.numbers<T>(stretches * (taps - 1) * columns),
                    .weight = memory.numbers<T>(columns * taps),
                    .bias = memory.numbers<T>(columns),
                    .y = memory.unset<T>(rows * columns),
                    .stretch_of_row = memory.values<int64_t>({0, 0, 0, 0, 0, 1, 1}),
                    .begins = memory.values<int64_t>({0, 5, rows}),
                    .rows = rows,
                    .columns = columns,
                    .taps = taps,
                    .stretches = stretches,
                    .x_row = row,
                    .has_silu = has_silu};
                causal_conv(queue, forward);
                causal_conv_backward(
                    queue, forward,
                    {.dy = memory.numbers<float>(rows * row),
                     .d_sums = memory.unset<float>(rows * columns),
                     .dx = memory.numbers<float>(rows * row),
                     .d_before = memory.unset<float>(stretches * (taps - 1) * columns),
                     .d_weight = memory.unset<float>(num_conv_ranges(rows) * columns * taps),
                     .dy_row = row,
                     .dx_row = row});
            });
}

}  // namespace

void delta_cases(Part part) {
    walk(false, 12, 12);
    additive_walk(false, 300);
    if (part == Part::all) {
        walk(true, 6, 1);  // no whole packs
        additive_walk(true, 1100);
    }
    inverse(16);
    for (const bool has_silu : {true, false})
        for_types(part, [has_silu](auto* type) {
            convolution<std::remove_pointer_t<decltype(type)>>(300, has_silu);
        });
    if (part == Part::all)
        for_types(part, [](auto* type) {
            convolution<std::remove_pointer_t<decltype(type)>>(300, true, 3);
        });
}

}  // namespace ringshard::test

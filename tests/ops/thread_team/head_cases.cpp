#include "compare.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

// Three heads of rows that have five.
template <class T>
void norms(int64_t width) {
    constexpr int64_t tokens = 9;
    constexpr int64_t count = 3;
    compare(named<T>("head_norm", width), [&](const Queue& queue, Memory& memory) {
        const int64_t ranges = num_head_ranges(tokens * count, width);
        const HeadNorm work{.type = number_type<T>,
                            .heads = memory.numbers<T>(tokens * 5 * width),
                            .before = memory.unset<T>(tokens * count * width),
                            .weight = memory.numbers<T>(width),
                            .inverse_rms = memory.unset<float>(tokens * count),
                            .d_weight = memory.unset<float>(ranges * width),
                            .tokens = tokens,
                            .count = count,
                            .width = width,
                            .row = 5 * width,
                            .epsilon = 1e-6F,
                            .offset = 0};
        head_norm(queue, work);
        head_norm_backward(queue, work);
        if (width > 64) return;  // 1,024 threads for every 32 columns
        add_rows(queue, memory.numbers<float>(width), work.d_weight, ranges, width);
    });
}

template <class T>
void turns(int64_t half, bool is_interleaved) {
    constexpr int64_t tokens = 4;
    constexpr int64_t num_heads = 3;
    const int64_t row = 5 * 2 * half;
    compare(named<T>("rope", half), [&](const Queue& queue, Memory& memory) {
        float* const cosine = memory.unset<float>(tokens * half);
        float* const sine = memory.unset<float>(tokens * half);
        make_rope_table(queue, {.positions = memory.values<int64_t>({0, 1, 2, 900}),
                                .inverse_frequencies = memory.numbers<float>(half),
                                .cosine = cosine,
                                .sine = sine,
                                .tokens = tokens,
                                .half = half,
                                .scale = 1.5F});
        rope(queue, {.type = number_type<T>,
                     .heads = memory.numbers<T>(tokens * row),
                     .cosine = cosine,
                     .sine = sine,
                     .tokens = tokens,
                     .num_heads = num_heads,
                     .half = half,
                     .head_dim = 2 * half,
                     .is_interleaved = is_interleaved,
                     .row = row,
                     .sign = -1});
    });
}

// The gradients of two rows of tokens, heads after tokens.
template <class S, class T>
void gradients(int64_t query_heads, int64_t key_heads) {
    constexpr int64_t n = 2;
    constexpr int64_t t = 2;
    constexpr int64_t width = 64;
    const int64_t heads = query_heads + 2 * key_heads;
    const auto part = [](Memory& memory, int64_t count) {
        return HeadGradients::Part{memory.numbers<S>(n * t * count * width), t * count * width,
                                   count * width, width};
    };
    const auto work = [&](const Queue& queue, Memory& memory) {
        HeadGradients of_heads{.from_type = number_type<S>,
                               .type = number_type<T>,
                               .dq = part(memory, query_heads),
                               .dk = part(memory, key_heads),
                               .dv = part(memory, key_heads),
                               .into = memory.unset<T>(n * t * heads * width),
                               .cosine = memory.numbers<float>(n * t * width / 2),
                               .sine = memory.numbers<float>(n * t * width / 2),
                               .sums = nullptr,
                               .n = n,
                               .t = t,
                               .query_heads = query_heads,
                               .key_heads = key_heads,
                               .head_dim = width,
                               .first_row = 0,
                               .row_distance = t};
        of_heads.sums = memory.unset<float>(num_token_ranges(of_heads) * heads * width);
        put_head_gradients(queue, of_heads);
    };
    // It declines gradients that do not begin at a pack.
    compare(named<T>("put_head_gradients", heads * width), work, {0});
}

}  // namespace

void head_cases(Part part) {
    for_types(part, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        norms<T>(64);
        turns<T>(32, false);
    });
    gradients<bf16, bf16>(4, 2);
    if (part == Part::some) return;
    norms<float>(37);
    // A warp with two packs for a thread, and teams of rows with one and more.
    norms<bf16>(200);
    norms<float>(200);
    norms<bf16>(320);
    norms<float>(320);
    norms<float>(1000);
    norms<bf16>(8208);
    turns<bf16>(32, true);
    // Several warps to a row; a range has one token, or three: the last is one alone.
    gradients<float, bf16>(30, 1);
    gradients<float, float>(14, 1);
    gradients<bf16, bf16>(5000, 4);
}

}  // namespace ringshard::test

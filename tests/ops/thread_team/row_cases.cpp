#include "compare.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

template <class T>
void gates(int64_t width) {
    constexpr int64_t rows = 3;
    compare(named<T>("swiglu", width), [&](const Queue& queue, Memory& memory) {
        SwiGlu work{.type = number_type<T>,
                    .gate_up = memory.numbers<T>(rows * 2 * width),
                    .product = memory.unset<T>(rows * width),
                    .rows = rows,
                    .width = width};
        swiglu(queue, work);
        work.product = memory.numbers<T>(rows * width);
        swiglu_backward(queue, work);
    });
}

// Tokens that occur once, twice and three times, one of which is left out.
template <class T>
void embedding(int64_t width) {
    compare(named<T>("embedding_backward", width), [&](const Queue& queue, Memory& memory) {
        embedding_backward(queue, {.type = number_type<T>,
                                   .dy = memory.numbers<T>(6 * width),
                                   .sorted_tokens = memory.values<int64_t>({2, 2, 2, 5, 7, 7}),
                                   .places = memory.values<int64_t>({0, 3, 5, 1, 2, 4}),
                                   .d_table = memory.numbers<float>(9 * width),
                                   .partial = memory.numbers<float>(width),
                                   .tokens = 6,
                                   .width = width,
                                   .left_out = 5});
    });
}

// A token whose rows three teams add up, beside one that has a row.
void frequent_token(int64_t width) {
    constexpr int64_t tokens = 2 * rows_of_embedding_team + 2;
    std::vector<int64_t> sorted(tokens, 3);
    sorted.front() = 1;
    std::vector<int64_t> places(tokens);
    for (int64_t i = 0; i < tokens; ++i) places[static_cast<size_t>(i)] = tokens - 1 - i;
    compare(named<bf16>("embedding_backward of a frequent token", width),
            [&](const Queue& queue, Memory& memory) {
                embedding_backward(queue, {.type = number_type<bf16>,
                                           .dy = memory.numbers<bf16>(tokens * width),
                                           .sorted_tokens = memory.values(sorted),
                                           .places = memory.values(places),
                                           .d_table = memory.numbers<float>(4 * width),
                                           .partial = memory.numbers<float>(3 * width),
                                           .tokens = tokens,
                                           .width = width,
                                           .left_out = -1});
            });
}

std::vector<uint8_t> bytes(int64_t count) {
    std::vector<uint8_t> made;
    for (int64_t i = 0; i < count; ++i) made.push_back(static_cast<uint8_t>(i * 37));
    return made;
}

// Two teams; scales by themselves and in codes.
template <class T>
void four_bits(int64_t count, bool is_nested) {
    const int64_t blocks = (count + 63) / 64;
    const int64_t nested_blocks = (blocks + 255) / 256;
    compare(named<T>("dequantize_nf4", count), [&](const Queue& queue, Memory& memory) {
        DequantizeNf4 work{.type = number_type<T>,
                           .into = memory.unset<T>(count),
                           .codes = memory.values(bytes((count + 1) / 2)),
                           .count = count};
        if (is_nested) {
            work.scale_codes = memory.values(bytes(blocks));
            work.nested_scales = memory.numbers<float>(nested_blocks);
            work.mean = memory.numbers<float>(1);
        } else {
            work.scales = memory.numbers<float>(blocks);
        }
        for (int i = 0; i < 16; ++i) work.values[i] = static_cast<float>(i) / 8 - 1;
        for (int i = 0; i < 256; ++i) work.scale_values[i] = static_cast<float>(i) / 128 - 1;
        dequantize_nf4(queue, work);
    });
}

// A team to a row.
template <class T>
void eight_bits(int64_t rows, int64_t width) {
    compare(named<T>("dequantize_int8", width), [&](const Queue& queue, Memory& memory) {
        std::vector<int8_t> codes;
        for (const uint8_t byte : bytes(rows * width)) codes.push_back(static_cast<int8_t>(byte));
        dequantize_int8(queue, {.type = number_type<T>,
                                .into = memory.unset<T>(rows * width),
                                .codes = memory.values(codes),
                                .scales = memory.numbers<float>(rows),
                                .rows = rows,
                                .width = width});
    });
}

}  // namespace

void row_cases(Part part) {
    for_types(part, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        gates<T>(520);
        embedding<T>(520);
        four_bits<T>(3200, true);
        eight_bits<T>(3, 520);
    });
    if (part == Part::some) return;
    frequent_token(40);
    gates<float>(37);
    gates<bf16>(2056);
    embedding<bf16>(2056);
    four_bits<bf16>(3201, false);
    eight_bits<bf16>(2, 77);
}

}  // namespace ringshard::test

#include "fp8_kernels.hpp"

#include "compare.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

template <class T>
void rows(Fp8Type into_type, int64_t width) {
    constexpr int64_t count = 3;
    compare(named<T>("quantize_rows", width), [&](const Queue& queue, Memory& memory) {
        quantize_rows(queue, {.type = number_type<T>,
                              .into_type = into_type,
                              .x = memory.numbers<T>(count * width),
                              .codes = memory.unset<uint8_t>(count * width),
                              .factors = memory.unset<float>(count),
                              .rows = count,
                              .width = width});
    });
}

// Codes that become rows, and the largest of each column, are written in packs wherever x lies.
template <class T>
void columns(Fp8Type into_type, int64_t count, int64_t width) {
    compare(named<T>("quantize_columns", width), [&](const Queue& queue, Memory& memory) {
        quantize_columns(queue, {.type = number_type<T>,
                                 .into_type = into_type,
                                 .x = memory.numbers<T>(count * width),
                                 .codes = memory.aligned_unset<uint8_t>(count * width),
                                 .factors = memory.unset<float>(width),
                                 .largest = memory.values<uint32_t>(std::vector<uint32_t>(width)),
                                 .rows = count,
                                 .width = width});
    });
    compare(named<T>("quantize_columns_alike", width), [&](const Queue& queue, Memory& memory) {
        const T* const x = memory.numbers<T>(count * width);
        uint32_t* const largest = memory.values<uint32_t>({0});
        raise_maximum(queue,
                      {.type = number_type<T>, .x = x, .maximum = largest, .count = count * width});
        quantize_columns_alike(queue, {.type = number_type<T>,
                                       .into_type = into_type,
                                       .x = x,
                                       .codes = memory.aligned_unset<uint8_t>(count * width),
                                       .factors = memory.unset<float>(1),
                                       .largest = largest,
                                       .rows = count,
                                       .width = width});
    });
}

// Several teams raise one maximum.
template <class T>
void tensor(Fp8Type into_type, int64_t count) {
    compare(named<T>("quantize_tensor", count), [&](const Queue& queue, Memory& memory) {
        const T* const x = memory.numbers<T>(count);
        uint32_t* const largest = memory.values<uint32_t>({0});
        raise_maximum(queue, {.type = number_type<T>, .x = x, .maximum = largest, .count = count});
        for (const bool from_history : {false, true})
            quantize_tensor(queue,
                            {.type = number_type<T>,
                             .into_type = into_type,
                             .x = x,
                             .codes = memory.unset<uint8_t>(count),
                             .factor = memory.unset<float>(1),
                             .largest = from_history ? nullptr : largest,
                             .exponent = from_history ? memory.values<int32_t>({9}) : nullptr,
                             .maximum = memory.values<uint32_t>({0}),
                             .count = count,
                             .counted = count - 32});
    });
}

}  // namespace

void fp8_cases(Part part) {
    for (const Fp8Type into_type : {Fp8Type::e4m3, Fp8Type::e5m2}) {
        if (part == Part::some && into_type == Fp8Type::e5m2) continue;
        for_types(part, [&](auto* type) {
            using T = std::remove_pointer_t<decltype(type)>;
            rows<T>(into_type, 144);
            columns<T>(into_type, 80, 144);
            tensor<T>(into_type, 2 * 16384 + 256);
        });
    }
    if (part == Part::some) return;
    columns<bf16>(Fp8Type::e4m3, 192, 80);  // teams that raise the largest of a column
    // Rows in registers of a block, in shared memory, and read twice.
    for (const int64_t width : {1136, 8208, 60000}) {
        rows<bf16>(Fp8Type::e4m3, width);
        rows<float>(Fp8Type::e4m3, width);
    }
}

}  // namespace ringshard::test

// Compiled for AVX-512 with its products of bf16; choose_attention_*.cpp knows where it may be
// called.
#include <immintrin.h>

#include "attention_choice.hpp"
#include "attention_loops.hpp"

namespace ringshard::ops {

namespace {

struct Single : Numbers<VectorsOf16> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 4;
};

// The processor multiplies two neighbouring numbers of bf16 and adds both products in fp32.
struct Pairs : Single {
    static constexpr int64_t per_element = 2;
    using Element = uint32_t;
    using Right = Word;

    static RINGSHARD_KERNEL Right spread_element(uint32_t value) {
        return reinterpret_cast<Word>(_mm512_set1_epi32(static_cast<int>(value)));
    }
    static RINGSHARD_KERNEL Float dot(Float sum, Right left, Right right) {
        return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(left),
                                reinterpret_cast<__m512bh>(right));
    }
    typedef uint16_t Halves __attribute__((vector_size(32)));
    static RINGSHARD_KERNEL Halves rounded(Float values) {
        return reinterpret_cast<Halves>(_mm512_cvtneps_pbh(values));
    }
    static RINGSHARD_KERNEL void store_row(uint32_t* row, int64_t i, Float values) {
        const Halves bits = rounded(values);
        __builtin_memcpy(row + i / 2, &bits, sizeof bits);
    }
    static RINGSHARD_KERNEL void store_pair(uint32_t* place, Float even, Float odd) {
        const Word low = __builtin_convertvector(rounded(even), Word);
        const Word high = __builtin_convertvector(rounded(odd), Word);
        const Word both = low | high << 16;
        __builtin_memcpy(place, &both, sizeof both);
    }

    static RINGSHARD_KERNEL uint32_t pair(uint16_t even, uint16_t odd) {
        return even | uint32_t{odd} << 16;
    }
    static RINGSHARD_KERNEL void pack_row(uint32_t* into, const uint16_t* row, int64_t count) {
        __builtin_memcpy(into, row, static_cast<uint64_t>(count / 2 * 4));
        if (count % 2 == 1) into[count / 2] = row[count - 1];
    }
    static RINGSHARD_KERNEL void pack_column(uint32_t* into, int64_t stride, const uint16_t* row,
                                             int64_t count) {
        for (int64_t i = 0; i < count / 2; ++i) {
            uint32_t both;
            __builtin_memcpy(&both, row + 2 * i, sizeof both);
            into[i * stride] = both;
        }
        if (count % 2 == 1) into[count / 2 * stride] = row[count - 1];
    }
    // The second row is `stride` behind the first; there is none where it is 0.
    static RINGSHARD_KERNEL void pack_rows(uint32_t* into, const uint16_t* row, int64_t stride,
                                           int64_t count, int64_t columns) {
        if (stride == 0)
            for (int64_t i = 0; i < count; ++i) into[i] = row[i];
        else
            for (int64_t i = 0; i < count; ++i) into[i] = pair(row[i], row[stride + i]);
        for (int64_t i = count; i < columns; ++i) into[i] = 0;
    }
};

}  // namespace

constinit const AttentionKernels avx512_bf16_attention = kernels_of<Single, Pairs>("avx512_bf16");

}  // namespace ringshard::ops

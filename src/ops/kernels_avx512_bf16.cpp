// Compiled for AVX-512 with its products of bf16; choose_kernels_*.cpp knows where it may be
// called.
#include <immintrin.h>

#include "processor_kernels.hpp"
#include "vectors_avx512.hpp"

namespace ringshard::ops {

namespace {

struct Single : Numbers<VectorsOfAvx512> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 4;
};

// vdpbf16ps multiplies two neighbouring numbers of bf16 and adds both products in fp32.
struct Dpbf16 {
    static RINGSHARD_KERNEL Single::Halves rounded(Single::Float values) {
        return reinterpret_cast<Single::Halves>(_mm512_cvtneps_pbh(values));
    }
    static RINGSHARD_KERNEL Single::Float dot(Single::Float sum, Single::Word left,
                                              Single::Word right) {
        return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(left),
                                reinterpret_cast<__m512bh>(right));
    }
};

}  // namespace

constinit const Kernels avx512_bf16_kernels =
    kernels_of<Single, Pairs<Single, Dpbf16>>("avx512_bf16");

}  // namespace ringshard::ops

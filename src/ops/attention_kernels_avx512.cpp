// Compiled for AVX-512; choose_attention_*.cpp knows where it may be called.
#include "attention_choice.hpp"
#include "attention_loops.hpp"

namespace ringshard::ops {

namespace {

struct Avx512 : Numbers<VectorsOf16> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 4;
};

}  // namespace

constinit const AttentionKernels avx512_attention = kernels_of<Avx512, Avx512>("avx512");

}  // namespace ringshard::ops

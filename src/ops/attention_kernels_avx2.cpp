// Compiled for AVX2; choose_attention_*.cpp knows where it may be called.
#include "attention_choice.hpp"
#include "attention_loops.hpp"

namespace ringshard::ops {

namespace {

struct Avx2 : Numbers<VectorsOf8> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 2;
};

}  // namespace

constinit const AttentionKernels avx2_attention = kernels_of<Avx2, Avx2>("avx2");

}  // namespace ringshard::ops

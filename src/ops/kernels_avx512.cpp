// Compiled for AVX-512; choose_kernels_*.cpp decides where it may be called.
#include "processor_kernels.hpp"
#include "vectors_avx512.hpp"

namespace ringshard::ops {

namespace {

struct Avx512 : Numbers<VectorsOfAvx512> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 4;
};

}  // namespace

constinit const Kernels avx512_kernels = kernels_of<Avx512, Avx512>("avx512");

}  // namespace ringshard::ops

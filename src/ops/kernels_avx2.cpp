// Compiled for AVX2; choose_kernels_*.cpp decides where it may be called.
#include "processor_kernels.hpp"

namespace ringshard::ops {

namespace {

struct Avx2 : Numbers<VectorsOf8> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 2;
};

}  // namespace

constinit const Kernels avx2_kernels = kernels_of<Avx2, Avx2>("avx2");

}  // namespace ringshard::ops

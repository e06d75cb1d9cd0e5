// Compiled for any 64-bit Arm processor.
#include "processor_kernels.hpp"

namespace ringshard::ops {

namespace {

struct Neon : Numbers<VectorsOf4> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 4;
};

}  // namespace

constinit const Kernels neon_kernels = kernels_of<Neon, Neon>("neon");

}  // namespace ringshard::ops

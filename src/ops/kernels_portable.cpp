// For any processor, in vectors that the compiler cuts up as it must.
#include "processor_kernels.hpp"

namespace ringshard::ops {

namespace {

struct Portable : Numbers<VectorsOf8> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 2;
};

}  // namespace

constinit const Kernels portable_kernels = kernels_of<Portable, Portable>("portable");

}  // namespace ringshard::ops

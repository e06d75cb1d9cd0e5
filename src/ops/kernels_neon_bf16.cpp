// Compiled for Arm processors with products of bf16; choose_kernels_*.cpp knows where it may be
// called.
#include <arm_neon.h>

#include "processor_kernels.hpp"

namespace ringshard::ops {

namespace {

struct Single : Numbers<VectorsOf4> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 4;
};

// bfdot multiplies two neighbouring numbers of bf16 and adds both products in fp32. Most processors
// round each of these sums to odd rather than to nearest, and take numbers below the normal ones
// for zero.
struct Bfdot {
    static RINGSHARD_KERNEL Single::Halves rounded(Single::Float values) {
        return reinterpret_cast<Single::Halves>(
            vcvt_bf16_f32(reinterpret_cast<float32x4_t>(values)));
    }
    static RINGSHARD_KERNEL Single::Float dot(Single::Float sum, Single::Word left,
                                              Single::Word right) {
        return reinterpret_cast<Single::Float>(vbfdotq_f32(reinterpret_cast<float32x4_t>(sum),
                                                           reinterpret_cast<bfloat16x8_t>(left),
                                                           reinterpret_cast<bfloat16x8_t>(right)));
    }
};

}  // namespace

constinit const Kernels neon_bf16_kernels = kernels_of<Single, Pairs<Single, Bfdot>>("neon_bf16");

}  // namespace ringshard::ops

#pragma once

#include <cmath>

#include "numbers.cuh"

namespace ringshard::ops::gpu {

// The exact division is a call for each number, and so many instructions that they, and not memory,
// take the time. The error of this one stays below (2 + |x|) / 2^22 of the result.
__device__ __forceinline__ float fast_sigmoid(float x) {
    constexpr float log2_of_e = 1.44269504F;
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-log2_of_e * x));
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0F + power));
    return result;
}

RINGSHARD_BOTH float sigmoid(float x) {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return fast_sigmoid(x);), (return 1.0F / (1.0F + expf(-x));))
}

}  // namespace ringshard::ops::gpu

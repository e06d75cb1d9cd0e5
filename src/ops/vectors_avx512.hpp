#pragma once

#include <immintrin.h>

#include "vectors.hpp"

namespace ringshard::ops {
namespace {

struct VectorsOfAvx512 : VectorsOf16 {
    // Stores past the caches, to a multiple of 64 bytes: the processor does not read the line that
    // it overwrites.
    static RINGSHARD_KERNEL void stream(float* place, Float values) {
        _mm512_stream_ps(place, values);
    }
    // Other threads see such stores only after a fence.
    static RINGSHARD_KERNEL void finish_streams() { _mm_sfence(); }
};

}  // namespace
}  // namespace ringshard::ops

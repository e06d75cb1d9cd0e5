// Compiled for any 64-bit Arm processor.
#include "attention_choice.hpp"
#include "attention_loops.hpp"

namespace ringshard::ops {

namespace {

struct Neon : Numbers<VectorsOf4> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 4;
};

}  // namespace

constinit const AttentionKernels neon_attention = kernels_of<Neon, Neon>("neon");

}  // namespace ringshard::ops

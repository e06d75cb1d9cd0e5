#pragma once

#include "attention_kernels.hpp"
#include "gemm_kernels.hpp"

// The kernels in this program, and those of them that this processor can run.
namespace ringshard::ops {

// The kernels for one kind of processor.
struct Kernels {
    const char* name;
    AttentionKernels attention;
    GemmKernels gemm;
};

extern const Kernels avx512_bf16_kernels;
extern const Kernels avx512_kernels;
extern const Kernels avx2_kernels;
extern const Kernels neon_bf16_kernels;
extern const Kernels neon_kernels;
extern const Kernels portable_kernels;

// Returns the `number`th of those that this processor can run, from the fastest on, and a null
// pointer behind the last.
const Kernels* kernels_here(int number);

// Returns true if the processor has tiles for bf16 (AMX), which MKL uses and these kernels do not.
bool has_bf16_tiles();

}  // namespace ringshard::ops

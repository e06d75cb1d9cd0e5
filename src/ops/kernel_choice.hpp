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

extern const Kernels amx_kernels;
extern const Kernels avx512_bf16_kernels;
extern const Kernels avx512_kernels;
extern const Kernels avx2_kernels;
extern const Kernels neon_bf16_kernels;
extern const Kernels neon_kernels;
extern const Kernels portable_kernels;

// Returns the `number`th of those that this processor can run, from the fastest on, and a null
// pointer behind the last.
const Kernels* kernels_here(int number);

// Returns true if RINGSHARD_TEST_INSTRUCTIONS names a lesser kind of processor than one with this
// feature, as Linux names it: amx, avx512_bf16, avx512, avx2 or portable. Then the kernels in this
// program, and this_processor(), are those of that kind; LibTorch, oneDNN and MKL have variables of
// their own, and scripts/lesser-processor sets all of them.
bool is_hidden(const char* feature);

// Returns true if the processor has tiles for bf16 (AMX) and the system lets this process use them.
bool has_bf16_tiles();

}  // namespace ringshard::ops

#pragma once

#include "attention_kernels.hpp"

// The kernels in this program, and those of them that this processor can run.
namespace ringshard::ops {

extern const AttentionKernels avx512_bf16_attention;
extern const AttentionKernels avx512_attention;
extern const AttentionKernels avx2_attention;
extern const AttentionKernels neon_bf16_attention;
extern const AttentionKernels neon_attention;
extern const AttentionKernels portable_attention;

// Returns the `number`th of those that this processor can run, from the fastest on, and a null
// pointer behind the last.
const AttentionKernels* attention_kernels_here(int number);

// Does the processor have tiles that multiply bf16, which MKL uses and these kernels do not?
bool has_bf16_tiles();

}  // namespace ringshard::ops

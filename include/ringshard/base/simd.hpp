#pragma once

// Before a function: the compiler makes a copy of it for AVX-512, one for AVX2 and one for any
// x86-64, and the first call picks the widest that the processor has. So one binary runs on every
// node of a cluster, at the speed of each.
#define RINGSHARD_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

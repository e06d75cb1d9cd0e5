#include <sys/auxv.h>

#include <array>

#include "attention_choice.hpp"

namespace ringshard::ops {

namespace {

// HWCAP2_BF16 of Linux, whose header older kernels ship without it.
constexpr unsigned long bf16_products = 1UL << 14;

}  // namespace

const AttentionKernels* attention_kernels_here(int number) {
    const bool has_bf16 = (getauxval(AT_HWCAP2) & bf16_products) != 0;
    const std::array<const AttentionKernels*, 3> all{has_bf16 ? &neon_bf16_attention : nullptr,
                                                     &neon_attention, &portable_attention};
    for (const AttentionKernels* const kernels : all)
        if (kernels != nullptr && number-- == 0) return kernels;
    return nullptr;
}

bool has_bf16_tiles() { return false; }

}  // namespace ringshard::ops

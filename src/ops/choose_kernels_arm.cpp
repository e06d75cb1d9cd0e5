#include <sys/auxv.h>

#include <array>

#include "kernel_choice.hpp"

namespace ringshard::ops {

namespace {

// HWCAP2_BF16 of Linux, whose header older kernels ship without it.
constexpr unsigned long bf16_products = 1UL << 14;

}  // namespace

const Kernels* kernels_here(int number) {
    const bool has_bf16 = (getauxval(AT_HWCAP2) & bf16_products) != 0;
    const std::array<const Kernels*, 3> all{has_bf16 ? &neon_bf16_kernels : nullptr, &neon_kernels,
                                            &portable_kernels};
    for (const Kernels* const kernels : all)
        if (kernels != nullptr && number-- == 0) return kernels;
    return nullptr;
}

bool has_bf16_tiles() { return false; }

}  // namespace ringshard::ops

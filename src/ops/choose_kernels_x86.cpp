#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "kernel_choice.hpp"

namespace ringshard::ops {

namespace {

bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && !is_hidden("avx2");
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && !is_hidden("avx512f");
}

bool has_avx512_bf16() {
    return has_avx512() && __builtin_cpu_supports("avx512bf16") && !is_hidden("avx512_bf16");
}

bool asks_for_tiles() {
    constexpr unsigned amx_bf16 = 1U << 22;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & amx_bf16) == 0) return false;
    // Linux saves tiles only for a process that asked: they are 8 KiB of each thread.
    constexpr long request_permission = 0x1023;
    constexpr long tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// AMD's processors start as many vdpbf16ps as multiply-adds of fp32. Intel's (measured: family 6
// model 207) start a quarter as many, so there bf16 is faster as fp32.
bool prefers_pairs() { return has_avx512_bf16() && !__builtin_cpu_is("intel"); }

}  // namespace

const Kernels* kernels_here(int number) {
    const std::array<const Kernels*, 6> all{
        has_bf16_tiles() ? &amx_kernels : nullptr,
        prefers_pairs() ? &avx512_bf16_kernels : nullptr,
        has_avx512() ? &avx512_kernels : nullptr,
        has_avx512_bf16() && !prefers_pairs() ? &avx512_bf16_kernels : nullptr,
        has_avx2() ? &avx2_kernels : nullptr,
        &portable_kernels};
    for (const Kernels* const kernels : all)
        if (kernels != nullptr && number-- == 0) return kernels;
    return nullptr;
}

bool has_bf16_tiles() {
    // A hypervisor answers the question, which takes as long as a small model's attention.
    static const bool has_tiles = has_avx512_bf16() && !is_hidden("amx_bf16") && asks_for_tiles();
    return has_tiles;
}

}  // namespace ringshard::ops

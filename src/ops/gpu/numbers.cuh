#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <nv/target>
#include <type_traits>

#include "host_accesses.hpp"
#include "kernels.hpp"

#define RINGSHARD_BOTH __host__ __device__ __forceinline__

// Numbers are read and written sixteen bytes at a time where they lie so, and computed with in
// fp32.
namespace ringshard::ops::gpu {

using bf16 = __nv_bfloat16;

RINGSHARD_BOTH float to_float(float number) { return number; }
RINGSHARD_BOTH float to_float(bf16 number) { return __bfloat162float(number); }
RINGSHARD_BOTH void put(float& place, float number) { place = number; }
RINGSHARD_BOTH void put(bf16& place, float number) { place = __float2bfloat16_rn(number); }

template <class T, int n>
struct alignas(n * sizeof(T)) Pack {
    T numbers[n];
};

template <int n>
struct Floats {
    float values[n];
    RINGSHARD_BOTH float& operator[](int i) { return values[i]; }
    RINGSHARD_BOTH const float& operator[](int i) const { return values[i]; }
};

template <int n, class T>
RINGSHARD_BOTH Pack<T, n> load_pack(const T* from) {
    NV_IF_TARGET(NV_IS_HOST, (note_host_access(HostAccess::read, from, n * sizeof(T));))
    return *reinterpret_cast<const Pack<T, n>*>(from);
}

template <int n, class T>
RINGSHARD_BOTH Floats<n> to_floats(const Pack<T, n>& pack) {
    Floats<n> floats;
    for (int i = 0; i < n; ++i) floats[i] = to_float(pack.numbers[i]);
    return floats;
}

template <int n, class T>
RINGSHARD_BOTH Floats<n> load(const T* from) {
    return to_floats<n>(load_pack<n>(from));
}

template <int n, class T>
RINGSHARD_BOTH void store_pack(T* into, const Pack<T, n>& pack) {
    NV_IF_TARGET(NV_IS_HOST, (note_host_access(HostAccess::write, into, n * sizeof(T));))
    *reinterpret_cast<Pack<T, n>*>(into) = pack;
}

// Has the second-level cache read what the next row needs, without a register for it.
RINGSHARD_BOTH void prefetch([[maybe_unused]] const void* from) {
    NV_IF_TARGET(NV_IS_DEVICE, (asm volatile("prefetch.L2 [%0];" ::"l"(from));))
}

template <class T, int n>
RINGSHARD_BOTH Pack<T, n> to_pack(const Floats<n>& floats) {
    Pack<T, n> pack;
    for (int i = 0; i < n; ++i) put(pack.numbers[i], floats[i]);
    return pack;
}

template <int n, class T>
RINGSHARD_BOTH void store(T* into, const Floats<n>& floats) {
    store_pack<n>(into, to_pack<T, n>(floats));
}

struct Sum {
    RINGSHARD_BOTH float operator()(float a, float b) const { return a + b; }
};

template <int n>
struct PackSize {
    static constexpr int value = n;
};

// Calls `work` with a null pointer of the type.
template <class Work>
void with_type(NumberType type, Work work) {
    if (type == NumberType::fp32)
        work(static_cast<float*>(nullptr));
    else
        work(static_cast<bf16*>(nullptr));
}

// Do packs of n numbers of T make up rows of this width, from all of these places?
template <class T, class... Pointers>
bool fits(int n, int64_t width, Pointers... pointers) {
    const auto is_aligned = [&](const void* pointer) {
        return reinterpret_cast<uintptr_t>(pointer) % (static_cast<size_t>(n) * sizeof(T)) == 0;
    };
    return width % n == 0 && (is_aligned(pointers) && ...);
}

// Calls `work` with the type and the size of packs that suits: sixteen bytes, or one number.
template <class Work, class... Pointers>
void with_packs(NumberType type, int64_t width, Work work, Pointers... pointers) {
    with_type(type, [&](auto* null) {
        using T = std::remove_pointer_t<decltype(null)>;
        constexpr int n = 16 / static_cast<int>(sizeof(T));
        if (fits<T>(n, width, pointers...))
            work(null, PackSize<n>());
        else
            work(null, PackSize<1>());
    });
}

}  // namespace ringshard::ops::gpu

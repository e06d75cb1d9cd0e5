#include "fp8_codes.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

using namespace fp8;

namespace {

// A team goes through a stretch of numbers, in packs.
constexpr int64_t numbers_of_stretch = 256 * 4 * codes_of_pack;
int64_t num_stretches(int64_t count) {
    return (count + numbers_of_stretch - 1) / numbers_of_stretch;
}
RINGSHARD_BOTH int64_t packs_of_stretch(int64_t count, int64_t first, int n) {
    const int64_t rest = count - first;
    return (rest < numbers_of_stretch ? rest : numbers_of_stretch) / n;
}

template <class T, int n>
struct RaiseMaximum {
    Fp8Maximum work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t first = team.number() * numbers_of_stretch;
        const T* const x = static_cast<const T*>(work.x) + first;
        const uint32_t largest = team.reduce(
            packs_of_stretch(work.count, first, n), uint32_t{0},
            [&](int64_t i) { return largest_of<n>(load_packs<n>(x + i * n)); }, Most());
        team.each(1, [&](int64_t) { raise(work.maximum, largest); });
    }
};

template <class T, int n>
struct QuantizeTensor {
    Fp8Tensor work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t first = team.number() * numbers_of_stretch;
        const T* const x = static_cast<const T*>(work.x) + first;
        uint8_t* const codes = work.codes + first;
        const int32_t exponent =
            work.largest != nullptr ? exponent_of(*work.largest, work.into_type) : *work.exponent;
        const float scale = power_of_two(exponent);
        const uint32_t largest = team.reduce(
            packs_of_stretch(work.count, first, n), uint32_t{0},
            [&](int64_t i) {
                const Floats<n> numbers = load_packs<n>(x + i * n);
                const uint32_t most = largest_of<n>(numbers);
                store_pack<n>(codes + i * n,
                              saturating_codes_of<n>(numbers, most, scale, work.into_type));
                return first + i * n < work.counted ? most : 0;
            },
            Most());
        team.each(1, [&](int64_t) {
            if (first == 0) *work.factor = power_of_two(-exponent);
            if (work.maximum != nullptr) raise(work.maximum, largest);
        });
    }
};

// Calls `work` with the type and the size of packs: sixteen codes, or one.
template <class Work, class... Pointers>
void with_codes(NumberType type, int64_t count, Work work, Pointers... pointers) {
    with_type(type, [&](auto* null) {
        using T = std::remove_pointer_t<decltype(null)>;
        constexpr int of_pack = 16 / static_cast<int>(sizeof(T));
        if (count % codes_of_pack == 0 && fits<T>(of_pack, count, pointers...))
            work(null, PackSize<codes_of_pack>());
        else
            work(null, PackSize<1>());
    });
}

}  // namespace

void quantize_tensor(const Queue& queue, const Fp8Tensor& work) {
    // Whole packs count, or none of their numbers.
    const int64_t count = work.counted % codes_of_pack == 0 ? work.count : 1;
    with_codes(
        work.type, count,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run<256>(queue, num_stretches(work.count),
                     QuantizeTensor<T, decltype(size)::value>{work});
        },
        work.x, work.codes);
}

void raise_maximum(const Queue& queue, const Fp8Maximum& work) {
    with_codes(
        work.type, work.count,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run<256>(queue, num_stretches(work.count),
                     RaiseMaximum<T, decltype(size)::value>{work});
        },
        work.x);
}

}  // namespace ringshard::ops::gpu

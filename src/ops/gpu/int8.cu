#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

constexpr float of_code = 7.874015748698502e-3F;  // 1 / 127, as bitsandbytes rounds it

// A team writes a row.
template <class T, int n>
struct DequantizeRows {
    DequantizeInt8 work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int8_t* const codes = work.codes + team.number() * work.width;
        T* const into = static_cast<T*>(work.into) + team.number() * work.width;
        const float scale = work.scales[team.number()];
        team.each(work.width / n, [&](int64_t i) {
            const Pack<int8_t, n> pack = load_pack<n>(codes + i * n);
            Floats<n> weights;
            for (int k = 0; k < n; ++k)
                weights[k] = static_cast<float>(pack.numbers[k]) * scale * of_code;
            store<n>(into + i * n, weights);
        });
    }
};

}  // namespace

// Packs of codes are half or a quarter as long as those of weights, and begin where these do.
void dequantize_int8(const Queue& queue, const DequantizeInt8& work) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using Program =
                DequantizeRows<std::remove_pointer_t<decltype(type)>, decltype(size)::value>;
            run<256>(queue, work.rows, Program{work});
        },
        work.into, work.codes);
}

}  // namespace ringshard::ops::gpu

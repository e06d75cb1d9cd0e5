#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

constexpr int64_t block = 64;
constexpr int64_t nested_block = 256;

// Multiplies in double precision, which is exact: the product is rounded to float by itself, and
// not within a fused sum.
RINGSHARD_BOTH float scale_of(const DequantizeNf4& work, int64_t number) {
    if (work.scales != nullptr) return work.scales[number];
    const double value = work.scale_values[work.scale_codes[number]];
    const auto product = static_cast<float>(value * work.nested_scales[number / nested_block]);
    return product + *work.mean;
}

// A team writes some blocks, each of its threads n weights at a time.
template <class T, int n>
struct Dequantize {
    static constexpr int64_t weights_of_team = 32 * block;
    DequantizeNf4 work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t first = team.number() * weights_of_team;
        const int64_t rest = work.count - first;
        team.each((rest < weights_of_team ? rest : weights_of_team) / n, [&](int64_t i) {
            const int64_t weight = first + i * n;
            const float scale = scale_of(work, weight / block);
            Floats<n> weights;
            for (int k = 0; k < n; ++k) {
                const uint8_t codes = work.codes[(weight + k) / 2];
                weights[k] = work.values[(weight + k) % 2 == 0 ? codes >> 4 : codes & 15] * scale;
            }
            store<n>(static_cast<T*>(work.into) + weight, weights);
        });
    }
};

}  // namespace

void dequantize_nf4(const Queue& queue, const DequantizeNf4& work) {
    with_packs(
        work.type, work.count,
        [&](auto* type, auto size) {
            using Program =
                Dequantize<std::remove_pointer_t<decltype(type)>, decltype(size)::value>;
            const int64_t of_team = Program::weights_of_team;
            run<256>(queue, (work.count + of_team - 1) / of_team, Program{work});
        },
        work.into);
}

}  // namespace ringshard::ops::gpu

#include <cmath>

#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

struct MakeTable {
    RopeTable work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const auto position = static_cast<float>(work.positions[team.number()]);
        const int64_t first = team.number() * work.half;
        team.each(work.half, [&](int64_t i) {
            const float angle = position * work.inverse_frequencies[i];
            work.cosine[first + i] = cosf(angle) * work.scale;
            work.sine[first + i] = sinf(angle) * work.scale;
        });
    }
};

// A team turns the heads of one token. n is 1 where pairs are interleaved.
template <class T, int n>
struct TurnHeads {
    Rope work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t half = work.half;
        const int64_t packs_of_half = half / n;
        T* const heads = static_cast<T*>(work.heads) + team.number() * work.row;
        const float* const cosine = work.cosine + team.number() * half;
        const float* const sine = work.sine + team.number() * half;
        team.each(work.num_heads * packs_of_half, [&](int64_t i) {
            const int64_t element = i % packs_of_half * n;
            T* const head = heads + i / packs_of_half * work.head_dim;
            T* const first = head + (work.is_interleaved ? 2 * element : element);
            T* const second = first + (work.is_interleaved ? 1 : half);
            Floats<n> a = load<n>(first);
            Floats<n> b = load<n>(second);
            for (int k = 0; k < n; ++k) {
                const float c = cosine[element + k];
                const float s = work.sign * sine[element + k];
                const float turned = a[k] * c - b[k] * s;
                b[k] = b[k] * c + a[k] * s;
                a[k] = turned;
            }
            store<n>(first, a);
            store<n>(second, b);
        });
    }
};

}  // namespace

void make_rope_table(const Queue& queue, const RopeTable& work) {
    run<warp_size>(queue, work.tokens, MakeTable{work});
}

void rope(const Queue& queue, const Rope& work) {
    with_type(work.type, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        constexpr int n = 16 / static_cast<int>(sizeof(T));
        constexpr int threads = 128;  // a model of half a billion has 64 packs to a token
        if (fits<T>(n, work.row, work.heads) && work.half % n == 0 && work.head_dim % n == 0 &&
            !work.is_interleaved)
            run<threads>(queue, work.tokens, TurnHeads<T, n>{work});
        else
            run<threads>(queue, work.tokens, TurnHeads<T, 1>{work});
    });
}

}  // namespace ringshard::ops::gpu

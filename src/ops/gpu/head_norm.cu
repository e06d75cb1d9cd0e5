#include <algorithm>

#include "row_team.cuh"

namespace ringshard::ops::gpu {

namespace {

// Returns the place of head i of all heads of all tokens.
RINGSHARD_BOTH int64_t place_of(const HeadNorm& work, int64_t i) {
    return i / work.count * work.row + i % work.count * work.width;
}

// Reads the heads twice, the second time from the cache.
template <class T, int n>
struct NormalizeHead {
    HeadNorm work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.width;
        T* const y = static_cast<T*>(work.heads) + place_of(work, team.number());
        T* const x = static_cast<T*>(work.before) + team.number() * width;
        const T* const weight = static_cast<const T*>(work.weight);
        const float squares = team.reduce(
            width / n, 0.0F,
            [&](int64_t i) {
                const Floats<n> numbers = load<n>(y + i * n);
                float sum = 0;
                for (int k = 0; k < n; ++k) sum += numbers[k] * numbers[k];
                return sum;
            },
            Sum());
        const float inverse = 1.0F / sqrtf(squares / static_cast<float>(width) + work.epsilon);
        team.each(1, [&](int64_t) { work.inverse_rms[team.number()] = inverse; });
        team.each(width / n, [&](int64_t i) {
            Floats<n> numbers = load<n>(y + i * n);
            const Floats<n> w = load<n>(weight + i * n);
            store<n>(x + i * n, numbers);
            for (int k = 0; k < n; ++k) numbers[k] = (w[k] + work.offset) * (numbers[k] * inverse);
            store<n>(y + i * n, numbers);
        });
    }
};

// nvcc stores the numbers of a pack one by one in the pass below, whatever type it is stored as.
template <int bytes>
__device__ __forceinline__ void store_in_one(void* into, const void* from) {
    uint32_t words[bytes / sizeof(uint32_t)];
    memcpy(words, from, bytes);
    if constexpr (bytes == 16)
        asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(into), "r"(words[0]), "r"(words[1]),
                     "r"(words[2]), "r"(words[3])
                     : "memory");
    else
        asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(into), "r"(words[0]), "r"(words[1])
                     : "memory");
}

// Stores as store() does, and on a GPU at once.
template <int n, class T>
RINGSHARD_BOTH void store_at_once(T* into, const Floats<n>& floats) {
    const Pack<T, n> pack = to_pack<T, n>(floats);
    if constexpr (n > 1) {
        NV_IF_TARGET(NV_IS_DEVICE, (store_in_one<sizeof(pack)>(into, &pack); return;))
    }
    store_pack<n>(into, pack);
}

// With n = x * r, r = 1 / rms(x): dx = r * (w dy - n * mean(n w dy)), dw = n dy.
template <class T, int n, int packs>
struct HeadBackward {
    HeadNorm work;
    int64_t num_ranges;

    // The columns of one pack.
    struct Columns {
        Floats<n> sum;                 // of the weights' gradient
        KeptPack<T, n, packs> weight;  // for all heads
        KeptPack<T, n, packs> x;
        KeptPack<T, n, packs> dy;
    };

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.width;
        auto own = team.template own<Columns, packs>();
        const T* const weight = static_cast<const T*>(work.weight);
        const auto weights_of = [&](int64_t i) { return load_pack<n>(weight + i * n); };
        team.each_own(width / n, own, [&](int64_t i, Columns& columns) {
            for (int k = 0; k < n; ++k) columns.sum[k] = 0;
            columns.weight.ahead([&] { return weights_of(i); });
        });
        const Range mine = range_of(team.number(), num_ranges, work.tokens * work.count);
        for (int64_t head = mine.begin; head < mine.end; ++head) {
            T* const dy = static_cast<T*>(work.heads) + place_of(work, head);
            const T* const x = static_cast<const T*>(work.before) + head * width;
            const float inverse = work.inverse_rms[head];
            const float dot = team.reduce_own(
                width / n, own, 0.0F,
                [&](int64_t i, Columns& columns) {
                    const Floats<n> a =
                        to_floats<n>(columns.x.first([&] { return load_pack<n>(x + i * n); }));
                    const Floats<n> b =
                        to_floats<n>(columns.dy.first([&] { return load_pack<n>(dy + i * n); }));
                    const Floats<n> w =
                        to_floats<n>(columns.weight.again([&] { return weights_of(i); }));
                    float sum = 0;
                    for (int k = 0; k < n; ++k) sum += a[k] * inverse * (w[k] + work.offset) * b[k];
                    return sum;
                },
                Sum());
            const float mean = dot / static_cast<float>(width);
            team.each_own(width / n, own, [&](int64_t i, Columns& columns) {
                const Floats<n> a =
                    to_floats<n>(columns.x.again([&] { return load_pack<n>(x + i * n); }));
                const Floats<n> b =
                    to_floats<n>(columns.dy.again([&] { return load_pack<n>(dy + i * n); }));
                const Floats<n> w =
                    to_floats<n>(columns.weight.again([&] { return weights_of(i); }));
                Floats<n> gradient;
                for (int k = 0; k < n; ++k) {
                    const float normed = a[k] * inverse;
                    columns.sum[k] += normed * b[k];
                    gradient[k] = inverse * ((w[k] + work.offset) * b[k] - normed * mean);
                }
                store_at_once<n>(dy + i * n, gradient);
            });
        }
        float* const partial = work.d_weight + team.number() * width;
        team.each_own(width / n, own, [&](int64_t i, Columns& columns) {
            for (int k = 0; k < n; ++k) partial[i * n + k] = columns.sum[k];
        });
    }
};

template <class T>
bool fits_in_heads(int n, const HeadNorm& work) {
    return work.width % n == 0 && fits<T>(n, work.row, work.heads, work.before, work.weight);
}

// Calls `body` with a null pointer of the type, the size of packs, the most packs of a thread, and
// the threads of a head: a warp, or the team of a row as wide. A warp has packs of four numbers, so
// that all its threads have work.
template <class Body>
void with_head_team(const HeadNorm& work, Body body) {
    with_type(work.type, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const auto with_size = [&](auto size, auto team) {
            with_packs_of_thread<decltype(size)::value, decltype(team)::value>(
                work.width, [&](auto packs) { body(type, size, packs, team); });
        };
        if (work.width <= widest_head_of_warp) {
            if (fits_in_heads<T>(4, work)) return with_size(PackSize<4>(), TeamSize<warp_size>());
            return with_size(PackSize<1>(), TeamSize<warp_size>());
        }
        with_team(work.width, [&](auto team) {
            constexpr int n = 16 / static_cast<int>(sizeof(T));
            if (fits_in_heads<T>(n, work)) return with_size(PackSize<n>(), team);
            with_size(PackSize<1>(), team);
        });
    });
}

}  // namespace

int64_t num_head_ranges(int64_t heads, int64_t width) { return ranges_of_heads(heads, width); }

void head_norm(const Queue& queue, const HeadNorm& work) {
    with_head_team(work, [&](auto* type, auto size, auto, auto team) {
        using T = std::remove_pointer_t<decltype(type)>;
        run<decltype(team)::value>(queue, work.tokens * work.count,
                                   NormalizeHead<T, decltype(size)::value>{work});
    });
}

void head_norm_backward(const Queue& queue, const HeadNorm& work) {
    const int64_t ranges = num_head_ranges(work.tokens * work.count, work.width);
    with_head_team(work, [&](auto* type, auto size, auto packs, auto team) {
        using T = std::remove_pointer_t<decltype(type)>;
        constexpr int threads = decltype(team)::value;
        run<threads, resident_blocks_of_ranges(threads_per_block(threads))>(
            queue, ranges,
            HeadBackward<T, decltype(size)::value, decltype(packs)::value>{work, ranges});
    });
}

}  // namespace ringshard::ops::gpu

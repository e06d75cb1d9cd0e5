#include <algorithm>

#include "numbers.cuh"
#include "range.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// A team goes through some tokens. A thread has the same pairs of packs of every token: those that
// turn together in a head. S: the type of the operator's gradients, T: of the rows.
template <class S, class T, int n, int pairs>
struct PutHeads {
    HeadGradients work;
    int64_t num_ranges;

    struct Sums {
        Floats<n> first;
        Floats<n> second;
    };

    RINGSHARD_BOTH const S* head_of(int64_t head, int64_t token) const {
        const int64_t keys = work.query_heads + work.key_heads;
        const HeadGradients::Part& part =
            head < work.query_heads ? work.dq : (head < keys ? work.dk : work.dv);
        const int64_t of_part =
            head < work.query_heads ? head : (head < keys ? head - work.query_heads : head - keys);
        return static_cast<const S*>(part.from) + token / work.t * part.stride_n +
               token % work.t * part.stride_t + of_part * part.stride_h;
    }

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t half = work.head_dim / 2;
        const int64_t packs_of_half = half / n;
        const int64_t num_heads = work.query_heads + 2 * work.key_heads;
        const int64_t count = num_heads * packs_of_half;
        auto own = team.template own<Sums, pairs>();
        team.each_own(count, own, [&](int64_t, Sums& sums) {
            for (int k = 0; k < n; ++k) sums.first[k] = sums.second[k] = 0;
        });
        const Range mine = range_of(team.number(), num_ranges, work.n * work.t);
        for (int64_t token = mine.begin; token < mine.end; ++token) {
            const int64_t row =
                work.first_row + token / work.t * work.row_distance + token % work.t;
            T* const into = static_cast<T*>(work.into) + row * num_heads * work.head_dim;
            team.each_own(count, own, [&](int64_t i, Sums& sums) {
                const int64_t head = i / packs_of_half;
                const int64_t element = i % packs_of_half * n;
                const S* const from = head_of(head, token) + element;
                Floats<n> a = load<n>(from);
                Floats<n> b = load<n>(from + half);
                if (work.cosine != nullptr && head < work.query_heads + work.key_heads) {
                    const float* const cosine = work.cosine + row * half + element;
                    const float* const sine = work.sine + row * half + element;
                    for (int k = 0; k < n; ++k) {
                        const float turned = a[k] * cosine[k] + b[k] * sine[k];
                        b[k] = b[k] * cosine[k] - a[k] * sine[k];
                        a[k] = turned;
                    }
                }
                const Pack<T, n> first = to_pack<T, n>(a);
                const Pack<T, n> second = to_pack<T, n>(b);
                T* const place = into + head * work.head_dim + element;
                store_pack<n>(place, first);
                store_pack<n>(place + half, second);
                a = to_floats<n>(first);
                b = to_floats<n>(second);
                for (int k = 0; k < n; ++k) {
                    sums.first[k] += a[k];
                    sums.second[k] += b[k];
                }
            });
        }
        if (work.sums == nullptr) return;
        float* const partial = work.sums + team.number() * num_heads * work.head_dim;
        team.each_own(count, own, [&](int64_t i, Sums& sums) {
            float* const place =
                partial + i / packs_of_half * work.head_dim + i % packs_of_half * n;
            for (int k = 0; k < n; ++k) {
                place[k] = sums.first[k];
                place[half + k] = sums.second[k];
            }
        });
    }
};

constexpr int threads = 128;

template <int n>
bool has_whole_packs(const HeadGradients& work) {
    const auto is_whole = [](const HeadGradients::Part& part) {
        return part.stride_n % n == 0 && part.stride_t % n == 0 && part.stride_h % n == 0;
    };
    return work.head_dim % (2 * n) == 0 && is_whole(work.dq) && is_whole(work.dk) &&
           is_whole(work.dv);
}

// Calls `work` with the pairs of a thread, or returns false if there are too many.
template <class Work>
bool with_pairs(int64_t count, Work work) {
    const int64_t pairs = (count + threads - 1) / threads;
    if (pairs > 8) return false;
    if (pairs == 1)
        work(PackSize<1>());
    else if (pairs == 2)
        work(PackSize<2>());
    else if (pairs <= 4)
        work(PackSize<4>());
    else
        work(PackSize<8>());
    return true;
}

}  // namespace

// Enough for all multiprocessors of the largest GPUs; without sums, a team for every token.
int64_t num_token_ranges(int64_t tokens, bool has_sums) {
    constexpr int64_t teams = 132 * 16;
    return has_sums ? std::min(tokens, teams) : tokens;
}

bool put_head_gradients(const Queue& queue, const HeadGradients& work) {
    bool is_done = false;
    const int64_t ranges = num_token_ranges(work.n * work.t, work.sums != nullptr);
    const int64_t num_heads = work.query_heads + 2 * work.key_heads;
    with_type(work.from_type, [&](auto* from) {
        with_type(work.type, [&](auto* into) {
            using S = std::remove_pointer_t<decltype(from)>;
            using T = std::remove_pointer_t<decltype(into)>;
            constexpr int n = 16 / static_cast<int>(sizeof(T));
            if constexpr (sizeof(S) >= sizeof(T)) {  // gradients are no narrower than rows
                if (!has_whole_packs<n>(work) || !fits<T>(n, work.head_dim, work.into) ||
                    !fits<S>(n, work.head_dim, work.dq.from, work.dk.from, work.dv.from))
                    return;
                is_done = with_pairs(num_heads * work.head_dim / 2 / n, [&](auto pairs) {
                    run<threads>(queue, ranges,
                                 PutHeads<S, T, n, decltype(pairs)::value>{work, ranges});
                });
            }
        });
    });
    return is_done;
}

}  // namespace ringshard::ops::gpu

#include <algorithm>

#include "numbers.cuh"
#include "range.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

constexpr int threads = 32;
constexpr int resident_blocks = 2;

int64_t pairs_of_row(const HeadGradients& work, int n) {
    return (work.query_heads + 2 * work.key_heads) * (work.head_dim / 2 / n);
}
int64_t warps_of_row(const HeadGradients& work, int n) {
    return (pairs_of_row(work, n) + threads - 1) / threads;
}

// A warp goes through some tokens. A thread has the same pair of packs of every token: those that
// turn together in a head. S: the type of the operator's gradients, T: of the rows.
template <class S, class T, int n>
struct PutHeads {
    // That a thread reads before it turns the first: as many as there are registers for.
    static constexpr int tokens_at_once = sizeof(S) > sizeof(T) ? 1 : 2;
    HeadGradients work;
    int64_t num_ranges;
    int num_warps;  // of a row
    int num_pairs;

    struct Pair {
        Floats<n> first;
        Floats<n> second;
    };
    struct Packs {
        Pack<S, n> first;
        Pack<S, n> second;
        Pack<float, n> cosine;
        Pack<float, n> sine;
        int64_t row;
    };

    // Where a token's gradients begin, and the row that they become.
    struct Place {
        int64_t from;
        int64_t row;
        int64_t of_sequence;
    };
    RINGSHARD_BOTH Place place_of(int64_t token, const HeadGradients::Part& part) const {
        const int64_t sequence = token / work.t;
        const int64_t of_sequence = token % work.t;
        return {sequence * part.stride_n + of_sequence * part.stride_t,
                work.first_row + sequence * work.row_distance + of_sequence, of_sequence};
    }
    RINGSHARD_BOTH void move_on(Place& place, const HeadGradients::Part& part) const {
        place.from += part.stride_t;
        place.row += 1;
        if (++place.of_sequence < work.t) return;
        place.of_sequence = 0;
        place.from += part.stride_n - work.t * part.stride_t;
        place.row += work.row_distance - work.t;
    }

    RINGSHARD_BOTH void put(const Range& mine, int pair, float* partial) const {
        const int half = static_cast<int>(work.head_dim) / 2;
        const int query_heads = static_cast<int>(work.query_heads);
        const int with_keys = query_heads + static_cast<int>(work.key_heads);
        const int head = pair / (half / n);
        const int element = pair % (half / n) * n;
        const HeadGradients::Part part =
            head < query_heads ? work.dq : (head < with_keys ? work.dk : work.dv);
        const int of_part =
            head - (head < query_heads ? 0 : (head < with_keys ? query_heads : with_keys));
        const S* const from = static_cast<const S*>(part.from) + of_part * part.stride_h + element;
        const bool turns = work.cosine != nullptr && head < with_keys;
        const int64_t width = (work.query_heads + 2 * work.key_heads) * work.head_dim;
        const int64_t column = head * work.head_dim + element;
        T* const into = static_cast<T*>(work.into) + column;

        Pair sums{};
        Place place = place_of(mine.begin, part);
        for (int64_t token = mine.begin; token < mine.end; token += tokens_at_once) {
            Packs packs[tokens_at_once];
            for (int u = 0; u < tokens_at_once; ++u) {
                packs[u].row = place.row;
                packs[u].first = load_pack<n>(from + place.from);
                packs[u].second = load_pack<n>(from + place.from + half);
                if (turns) {
                    packs[u].cosine = *of_table(work.cosine + place.row * half + element);
                    packs[u].sine = *of_table(work.sine + place.row * half + element);
                }
                if (token + u + 1 < mine.end) move_on(place, part);  // else the last one again
            }
            for (int u = 0; u < tokens_at_once; ++u) {
                if (token + u >= mine.end) break;
                const Pair numbers = turned(packs[u], turns);
                const Pack<T, n> first = to_pack<T, n>(numbers.first);
                const Pack<T, n> second = to_pack<T, n>(numbers.second);
                store_pack<n>(into + packs[u].row * width, first);
                store_pack<n>(into + packs[u].row * width + half, second);
                for (int k = 0; k < n; ++k) {
                    sums.first[k] += to_float(first.numbers[k]);
                    sums.second[k] += to_float(second.numbers[k]);
                }
            }
        }
        if (partial == nullptr) return;
        for (int k = 0; k < n; ++k) {
            partial[column + k] = sums.first[k];
            partial[column + half + k] = sums.second[k];
        }
    }

    // All heads of a token read it: it is in a cache, and no pass over rows.
    RINGSHARD_BOTH static const Pack<float, n>* of_table(const float* numbers) {
        return reinterpret_cast<const Pack<float, n>*>(numbers);
    }

    RINGSHARD_BOTH static Pair turned(const Packs& packs, bool turns) {
        Floats<n> a = to_floats<n>(packs.first);
        Floats<n> b = to_floats<n>(packs.second);
        if (turns)
            for (int k = 0; k < n; ++k) {
                const float cosine = packs.cosine.numbers[k];
                const float sine = packs.sine.numbers[k];
                const float first = a[k] * cosine + b[k] * sine;
                b[k] = b[k] * cosine - a[k] * sine;
                a[k] = first;
            }
        return {a, b};
    }

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t range = team.number() / num_warps;
        const int first = static_cast<int>(team.number() % num_warps) * threads;
        const Range mine = range_of(range, num_ranges, work.n * work.t);
        float* const partial =
            work.sums == nullptr
                ? nullptr
                : work.sums + range * (work.query_heads + 2 * work.key_heads) * work.head_dim;
        const int rest = num_pairs - first;
        team.each(rest < threads ? rest : threads,
                  [&](int64_t thread) { put(mine, first + static_cast<int>(thread), partial); });
    }
};

template <int n>
bool has_whole_packs(const HeadGradients& work) {
    const auto is_whole = [](const HeadGradients::Part& part) {
        return part.stride_n % n == 0 && part.stride_t % n == 0 && part.stride_h % n == 0;
    };
    return work.head_dim % (2 * n) == 0 && is_whole(work.dq) && is_whole(work.dk) &&
           is_whole(work.dv);
}

int of_pack(NumberType type) { return type == NumberType::fp32 ? 4 : 8; }

}  // namespace

// All that multiprocessors hold at a time. Heads of less than two packs, which put_head_gradients()
// declines, have no pairs.
int64_t num_token_ranges(const HeadGradients& work) {
    constexpr int64_t warps = multiprocessors * resident_blocks * teams_per_block(threads);
    const int64_t ranges = warps / std::max<int64_t>(1, warps_of_row(work, of_pack(work.type)));
    return std::clamp<int64_t>(ranges, 1, work.n * work.t);
}

bool put_head_gradients(const Queue& queue, const HeadGradients& work) {
    bool is_done = false;
    with_type(work.from_type, [&](auto* from) {
        with_type(work.type, [&](auto* into) {
            using S = std::remove_pointer_t<decltype(from)>;
            using T = std::remove_pointer_t<decltype(into)>;
            constexpr int n = 16 / static_cast<int>(sizeof(T));
            if constexpr (sizeof(S) >= sizeof(T)) {  // gradients are no narrower than rows
                is_done = has_whole_packs<n>(work) && fits<T>(n, work.head_dim, work.into) &&
                          fits<S>(n, work.head_dim, work.dq.from, work.dk.from, work.dv.from) &&
                          fits<float>(n, n, work.cosine, work.sine, work.sums);
                if (!is_done) return;
                const int64_t ranges = num_token_ranges(work);
                const int64_t warps = warps_of_row(work, n);
                run<threads, resident_blocks>(
                    queue, ranges * warps,
                    PutHeads<S, T, n>{work, ranges, static_cast<int>(warps),
                                      static_cast<int>(pairs_of_row(work, n))});
            }
        });
    });
    return is_done;
}

}  // namespace ringshard::ops::gpu

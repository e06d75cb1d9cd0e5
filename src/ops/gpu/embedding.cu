#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

constexpr int threads = 128;

// Where the rows of a token are added up: equal tokens stand beside each other in the sorted batch,
// which is cut into stretches of rows_of_embedding_team places.
struct Stretches {
    const int64_t* tokens;  // sorted
    int64_t count;

    // Does the token at a place stand before it too?
    RINGSHARD_BOTH bool continues(int64_t place) const {
        return place > 0 && tokens[place - 1] == tokens[place];
    }
    // Returns the end of the stretch that a place is in.
    RINGSHARD_BOTH int64_t end_after(int64_t place) const {
        const int64_t end = (place / rows_of_embedding_team + 1) * rows_of_embedding_team;
        return end < count ? end : count;
    }
};

// The columns of a team.
struct Columns {
    int64_t teams_per_row;
    int64_t of_team;

    RINGSHARD_BOTH int64_t begin(int64_t team) const { return team % teams_per_row * of_team; }
    RINGSHARD_BOTH int64_t count(int64_t team, int64_t width) const {
        const int64_t left = width - begin(team);
        return left < of_team ? left : of_team;
    }
};

// Adds up some columns of a token's rows within a stretch, in the order of the batch. The sum of
// its first stretch is added to the table, those of later ones are stored.
template <class T, int n>
struct AddRowsOfToken {
    EmbeddingBackward work;
    Columns columns;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const Stretches stretches{work.sorted_tokens, work.tokens};
        const int64_t first = team.number() / columns.teams_per_row;
        const int64_t token = work.sorted_tokens[first];
        const bool is_later = stretches.continues(first);
        if (token == work.left_out || (is_later && first % rows_of_embedding_team != 0)) return;
        const int64_t begin = columns.begin(team.number());
        const int64_t rows = count_rows(team, first, stretches.end_after(first));
        const T* const dy = static_cast<const T*>(work.dy) + begin;
        float* const row = (is_later ? work.partial + first / rows_of_embedding_team * work.width
                                     : work.d_table + token * work.width) +
                           begin;
        team.each(columns.count(team.number(), work.width) / n, [&](int64_t i) {
            Floats<n> sum{};
#pragma unroll 4
            for (int64_t at = first; at < first + rows; ++at) {
                const Floats<n> more = load<n>(dy + work.places[at] * work.width + i * n);
                for (int k = 0; k < n; ++k) sum[k] += more[k];
            }
            for (int k = 0; k < n; ++k)
                row[i * n + k] = is_later ? sum[k] : row[i * n + k] + sum[k];
        });
    }

private:
    // Returns how many places from `first` on have the same token. Most tokens stand alone.
#pragma nv_exec_check_disable
    template <class Team>
    RINGSHARD_BOTH int64_t count_rows(const Team& team, int64_t first, int64_t end) const {
        const int64_t* const tokens = work.sorted_tokens;
        if (first + 1 == end || tokens[first + 1] != tokens[first]) return 1;
        return team.reduce(
            end - first, 0, [&](int64_t i) { return tokens[first + i] == tokens[first] ? 1 : 0; },
            [](int a, int b) { return a + b; });
    }
};

// Adds the stored sums of a token's later stretches to the table, in order: the team of the first
// of them does.
struct AddStretchesOfToken {
    EmbeddingBackward work;
    Columns columns;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        constexpr int64_t length = rows_of_embedding_team;
        const Stretches stretches{work.sorted_tokens, work.tokens};
        const int64_t first = (team.number() / columns.teams_per_row + 1) * length;
        const int64_t token = work.sorted_tokens[first];
        if (token == work.left_out || !stretches.continues(first)) return;
        if (work.sorted_tokens[first - length] == token && stretches.continues(first - length))
            return;
        const int64_t begin = columns.begin(team.number());
        float* const row = work.d_table + token * work.width + begin;
        const float* const partial = work.partial + begin;
        team.each(columns.count(team.number(), work.width), [&](int64_t i) {
            float sum = row[i];
            for (int64_t at = first; at < work.tokens && work.sorted_tokens[at] == token;
                 at += length)
                sum += partial[at / length * work.width + i];
            row[i] = sum;
        });
    }
};

Columns columns_of(int64_t width, int64_t of_team) {
    return {(width + of_team - 1) / of_team, of_team};
}

}  // namespace

void embedding_backward(const Queue& queue, const EmbeddingBackward& work) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            constexpr int n = decltype(size)::value;
            const Columns columns = columns_of(work.width, int64_t{threads} * n);
            run<threads>(queue, work.tokens * columns.teams_per_row,
                         AddRowsOfToken<T, n>{work, columns});
        },
        work.dy);
    if (work.tokens <= rows_of_embedding_team) return;
    const int64_t later_stretches = (work.tokens - 1) / rows_of_embedding_team;
    const Columns columns = columns_of(work.width, threads);
    run<threads>(queue, later_stretches * columns.teams_per_row,
                 AddStretchesOfToken{work, columns});
}

}  // namespace ringshard::ops::gpu

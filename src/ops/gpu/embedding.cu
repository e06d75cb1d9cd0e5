#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// A team adds up some columns of all rows of one token: equal tokens stand beside each other, and
// the team of the first of them does the work. So every element is added to by one thread, in the
// order of the batch.
template <class T, int n>
struct AddRowsOfToken {
    EmbeddingBackward work;
    int64_t columns_per_team;
    int64_t teams_per_row;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t first = team.number() / teams_per_row;
        const int64_t token = work.sorted_tokens[first];
        if (token == work.left_out || (first > 0 && work.sorted_tokens[first - 1] == token)) return;
        const int64_t begin = team.number() % teams_per_row * columns_per_team;
        const int64_t left = work.width - begin;
        const int64_t columns = left < columns_per_team ? left : columns_per_team;
        const T* const dy = static_cast<const T*>(work.dy) + begin;
        float* const row = work.d_table + token * work.width + begin;
        team.each(columns / n, [&](int64_t i) {
            Floats<n> sum{};
            for (int64_t at = first; at < work.tokens && work.sorted_tokens[at] == token; ++at) {
                const Floats<n> more = load<n>(dy + work.places[at] * work.width + i * n);
                for (int k = 0; k < n; ++k) sum[k] += more[k];
            }
            for (int k = 0; k < n; ++k) row[i * n + k] += sum[k];
        });
    }
};

}  // namespace

void embedding_backward(const Queue& queue, const EmbeddingBackward& work) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            constexpr int n = decltype(size)::value;
            constexpr int threads = 128;
            constexpr int64_t columns = int64_t{threads} * n;
            const int64_t teams_per_row = (work.width + columns - 1) / columns;
            run<threads>(queue, work.tokens * teams_per_row,
                         AddRowsOfToken<T, n>{work, columns, teams_per_row});
        },
        work.dy);
}

}  // namespace ringshard::ops::gpu

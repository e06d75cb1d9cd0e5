#include "numbers.cuh"
#include "state_kernels.hpp"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

constexpr int64_t columns_per_team = 32;

// A team updates some columns of the state of a stretch and a head, chunk by chunk: columns are
// independent. The state and the values of a chunk lie in the team's memory.
struct Walk {
    DeltaWalk work;
    int64_t groups;  // of columns

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t first = team.number() % groups * columns_per_team;
        const int64_t head = team.number() / groups % work.heads;
        const int64_t stretch = team.number() / groups / work.heads;
        const int64_t rest = work.columns - first;
        const int64_t width = rest < columns_per_team ? rest : columns_per_team;
        float* const state = team.memory();
        float* const values = state + work.dk * columns_per_team;
        float* const last =
            work.last + (stretch * work.heads + head) * work.dk * work.columns + first;
        team.each(work.dk * width,
                  [&](int64_t i) { state[i] = last[i / width * work.columns + i % width]; });
        const int64_t begin = work.chunk_begins[stretch];
        const int64_t count = work.chunk_begins[stretch + 1] - begin;
        for (int64_t step = 0; step < count; ++step) {
            const int64_t chunk = work.backwards ? begin + count - 1 - step : begin + step;
            team.sync();
            read(team, chunk * work.heads + head, first, width, state, values);
            team.sync();
            move(team, chunk * work.heads + head, first, width, state, values);
        }
        team.each(work.dk * width,
                  [&](int64_t i) { last[i / width * work.columns + i % width] = state[i]; });
    }

    // Keeps the state, and makes the values of the chunk from it.
#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void read(const Team& team, int64_t place, int64_t first, int64_t width,
                                  const float* state, float* values) const {
        float* const kept = work.states + place * work.dk * work.columns + first;
        team.each(work.dk * width,
                  [&](int64_t i) { kept[i / width * work.columns + i % width] = state[i]; });
        const int64_t row = place * work.tokens;
        team.each(work.tokens * width, [&](int64_t i) {
            const float* const reader = work.reader + (row + i / width) * work.dk;
            const int64_t at = (row + i / width) * work.columns + first + i % width;
            float sum = 0;
            for (int64_t k = 0; k < work.dk; ++k) sum += reader[k] * state[k * width + i % width];
            values[i] = work.values[at] + work.sign * sum;
            work.new_values[at] = values[i];
        });
    }
    // Makes the state behind the chunk.
#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void move(const Team& team, int64_t place, int64_t first, int64_t width,
                                  float* state, const float* values) const {
        const float* const writer = work.writer + place * work.tokens * work.dk;
        const float whole = work.whole[place];
        team.each(work.dk * width, [&](int64_t i) {
            const int64_t k = i / width;
            float sum = 0;
            for (int64_t t = 0; t < work.tokens; ++t)
                sum += writer[t * work.dk + k] * values[t * width + i % width];
            const float added =
                work.added == nullptr
                    ? 0.0F
                    : work.added[(place * work.dk + k) * work.columns + first + i % width];
            state[i] = whole * state[i] + added - work.sign * sum;
        });
    }
};

// A team for each matrix: forward substitution, each thread in columns of its own.
struct Inverse {
    UnitTriangles work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t n = work.size;
        float* const below = team.memory();
        float* const inverse = below + n * n;
        const float* const from = work.below_diagonal + team.number() * n * n;
        float* const into = work.inverse + team.number() * n * n;
        team.each(n * n, [&](int64_t i) { below[i] = from[i]; });
        team.sync();
        team.each(n, [&](int64_t column) {
            for (int64_t row = 0; row < n; ++row) {
                float sum = row == column ? 1.0F : 0.0F;
                for (int64_t k = column; k < row; ++k)
                    sum -= below[row * n + k] * inverse[k * n + column];
                inverse[row * n + column] = sum;
                into[row * n + column] = sum;
            }
        });
    }
};

}  // namespace

void delta_walk(const Queue& queue, const DeltaWalk& work) {
    const int64_t groups = (work.columns + columns_per_team - 1) / columns_per_team;
    run<256>(queue, work.stretches * work.heads * groups, Walk{work, groups},
             (work.dk + work.tokens) * columns_per_team);
}

void invert_unit_triangles(const Queue& queue, const UnitTriangles& work) {
    run<64>(queue, work.count, Inverse{work}, 2 * work.size * work.size);
}

}  // namespace ringshard::ops::gpu

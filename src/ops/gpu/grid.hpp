#pragma once

#include <cstddef>
#include <cstdint>

namespace ringshard::ops::gpu {

// Small teams are warps that share a block, since a GPU holds a limited number of blocks at a time;
// larger teams are whole blocks, so a block's barrier is the team's.
constexpr int teams_per_block(int threads_per_team) {
    constexpr int warp = 32;
    return threads_per_team == warp ? 8 : 1;
}
constexpr int threads_per_block(int threads_per_team) {
    return teams_per_block(threads_per_team) * threads_per_team;
}

// A join of such values has many instructions: the warps of a team join theirs in pairs, where
// numbers are joined one after the other.
template <class Value>
constexpr bool is_record = sizeof(Value) > sizeof(float);

// Threads of a team for a row, or for a range of rows: narrow rows leave most of many without work.
constexpr int threads_of_row(int64_t width) {
    if (width <= 1024) return 128;
    if (width <= 2048) return 256;
    return width <= 4096 ? 512 : 1024;
}

// A backward pass over rows fills every multiprocessor of the largest Hopper GPUs a whole number of
// times: blocks beyond that would run alone at its end. gpu_code_test compares the blocks of a
// multiprocessor with the registers of the kernels.
constexpr int64_t multiprocessors = 132;
constexpr int resident_threads_of_ranges = 1024;
constexpr int resident_blocks_of_ranges(int threads_of_block) {
    return resident_threads_of_ranges / threads_of_block;
}
constexpr int64_t ranges_of_rows(int64_t rows, int threads) {
    const int64_t ranges = multiprocessors * (resident_threads_of_ranges / threads);
    return rows < ranges ? rows : ranges;
}

// Warps take heads; norms over all heads of a token, which are wider, have the teams of rows.
constexpr int64_t widest_head_of_warp = 256;
constexpr int threads_of_head(int64_t width) {
    constexpr int warp = 32;
    return width <= widest_head_of_warp ? warp : threads_of_row(width);
}
constexpr int64_t ranges_of_heads(int64_t heads, int64_t width) {
    if (width > widest_head_of_warp) return ranges_of_rows(heads, threads_of_row(width));
    constexpr int64_t fewest_heads = 4;
    return ranges_of_rows((heads + fewest_heads - 1) / fewest_heads, threads_of_head(width));
}

// The blocks, and threads of a block, for a number of teams.
struct Grid {
    int64_t blocks;
    int threads_per_block;
    int teams_per_block;
    size_t shared_bytes;
};
inline Grid grid_of(int64_t num_teams, int threads_per_team, int64_t floats_per_team) {
    const int teams = teams_per_block(threads_per_team);
    return {(num_teams + teams - 1) / teams, threads_per_block(threads_per_team), teams,
            static_cast<size_t>(teams * floats_per_team) * sizeof(float)};
}

}  // namespace ringshard::ops::gpu

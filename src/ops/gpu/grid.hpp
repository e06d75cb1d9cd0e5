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

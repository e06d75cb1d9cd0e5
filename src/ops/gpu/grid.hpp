#pragma once

#include <cstddef>
#include <cstdint>

namespace ringshard::ops::gpu {

// Warps share a block, for a GPU holds only so many blocks at a time; larger teams are blocks, so
// that what joins the threads of a block joins those of a team.
constexpr int teams_per_block(int threads_per_team) {
    constexpr int warp = 32;
    return threads_per_team == warp ? 8 : 1;
}
constexpr int threads_per_block(int threads_per_team) {
    return teams_per_block(threads_per_team) * threads_per_team;
}

// How many blocks of how many threads a number of teams makes.
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

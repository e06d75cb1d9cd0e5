#pragma once

#include "team.cuh"

namespace ringshard::ops::gpu {

constexpr int64_t weights_per_team = 4096;

inline int64_t teams_of_weights(int64_t count) {
    return (count + weights_per_team - 1) / weights_per_team;
}

// Calls update(i) for each pack of n of the team's weights: i is the number of its first one.
#pragma nv_exec_check_disable
template <int n, class Team, class Update>
RINGSHARD_BOTH void for_packs(const Team& team, int64_t count, Update update) {
    const int64_t begin = team.number() * weights_per_team;
    const int64_t left = count - begin;
    const int64_t mine = left < weights_per_team ? left : weights_per_team;
    team.each(mine / n, [&](int64_t i) { update(begin + i * n); });
}

}  // namespace ringshard::ops::gpu

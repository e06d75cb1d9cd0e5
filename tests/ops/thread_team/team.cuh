#pragma once

#include <algorithm>
#include <memory>
#include <typeinfo>
#include <vector>

#include "compare.hpp"
#include "crew.hpp"
#include "gpu_team.cuh"
#include "grid.hpp"
#include "host_team.cuh"
#include "kernels.hpp"
#include "launches.hpp"

// In place of src/ops/gpu/team.cuh: a queue of the GPU runs the GPU's teams on threads of the host,
// and one of the host its loops.
namespace ringshard::ops::gpu {

template <int threads, class Program>
struct Kernel {
    static inline const int number = test::register_kernel(__BASE_FILE__, typeid(Program).name());
};

// Runs teams whose threads see nothing of what those of another team have written. Teams beyond
// `most_threads` begin when the first ones have ended.
template <int threads, class Program>
void run_on_threads(int64_t num_teams, const Program& program, int64_t floats_per_team) {
    constexpr int64_t most_threads = 2048;
    constexpr int64_t at_a_time = most_threads / threads;
    for (int64_t first = 0; first < num_teams; first += at_a_time) {
        const int64_t count = std::min(at_a_time, num_teams - first);
        std::vector<std::unique_ptr<SharedByTeam>> teams;
        for (int64_t team = first; team < first + count; ++team) {
            const int64_t team_of_block = team % teams_per_block(threads);
            teams.push_back(std::make_unique<SharedByTeam>(
                threads, floats_per_team,
                static_cast<size_t>(team_of_block * floats_per_team) * sizeof(float)));
        }
        test::crew().run(static_cast<int>(count) * threads, [&](int number) {
            SharedByTeam& shared = *teams[static_cast<size_t>(number / threads)];
            this_thread = {&shared, number % threads};
            program(GpuTeam<threads>(first + number / threads, shared.memory()));
        });
    }
}

// How many blocks a multiprocessor holds is nothing to threads of the host.
template <int threads, int resident_blocks = 1, class Program>
void run(const Queue& queue, int64_t num_teams, const Program& program,
         int64_t floats_per_team = 0) {
    test::note_launch(Kernel<threads, Program>::number);
    const Grid grid = grid_of(num_teams, threads, floats_per_team);
    test::check_room(grid.blocks, grid.shared_bytes);
    if (num_teams == 0 || test::selection().only_counts_launches) return;
    if (queue.on_gpu)
        run_on_threads<threads>(num_teams, program, floats_per_team);
    else
        run_on_host<threads>(num_teams, program, floats_per_team);
}

}  // namespace ringshard::ops::gpu

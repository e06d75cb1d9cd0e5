#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/exit_code.hpp"

namespace ringshard::job {

// The variables that SLURM sets for this process. Every field may be missing.
struct Slurm {
    std::string job_id;
    // What squeue calls this job alone, "17" or "15_3": an array's last element has the array's id.
    std::string name_in_queue;
    std::string restart_count;
    std::string cluster;
    std::string node_list;
    std::string partition;
    std::optional<int64_t> end_time;  // of the job, in seconds since 1970; SLURM 23.02 and later
    std::optional<int64_t> step_num_tasks;  // of the step that srun started
    // srun started this very process. False in a batch shell, where SLURM_PROCID and SLURM_NTASKS
    // are set too, and under mpirun, whose daemons run in a step of their own with one task per
    // host.
    bool started_by_srun = false;
};

Slurm read_slurm(const Environment& environment);

// Returns true for rank 0 by the launcher's variables, and for a process without a launcher. For
// messages before MPI is initialized.
bool is_first_task(const Environment& environment);

// Returns which support srun lacks for this MPI (the text of MPI_Get_library_version) to find the
// other ranks. Call it before MPI_Init, whose message would mislead.
std::optional<Failure> check_launcher(const Slurm& slurm, const Environment& environment,
                                      std::string_view mpi_library);

// srun without the right --mpi starts many worlds of one rank; each must refuse to run alone.
std::optional<Failure> check_world_size(const Slurm& slurm, int64_t world);

}  // namespace ringshard::job

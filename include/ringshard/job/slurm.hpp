#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/exit_code.hpp"

namespace ringshard::job {

// Variables that SLURM sets for this process. Every field may be missing.
struct Slurm {
    std::string job_id;
    // Name with which squeue selects this job alone, "17" or "15_3": the last element of an array
    // has the id of the array.
    std::string name_in_queue;
    std::string restart_count;
    std::string cluster;
    std::string node_list;
    std::string partition;
    std::optional<int64_t> end_time;  // of the job, in seconds since 1970; SLURM 23.02 and later
    std::optional<int64_t> step_num_tasks;  // of the step that srun started
    // True if srun started this process. False in a batch shell, where SLURM_PROCID and
    // SLURM_NTASKS are set too, and under mpirun, whose daemons run in a step of their own with one
    // task per host.
    bool started_by_srun = false;
};

Slurm read_slurm(const Environment& environment);

// Returns true for rank 0 by the launcher's variables, and for a process without a launcher. Serves
// messages before MPI_Init.
bool is_first_task(const Environment& environment);

// Returns a failure that names the support that srun lacks for this MPI to find the other ranks.
// mpi_library: the text of MPI_Get_library_version. Call before MPI_Init, whose message misleads.
std::optional<Failure> check_launcher(const Slurm& slurm, const Environment& environment,
                                      std::string_view mpi_library);

// Returns a failure if the launcher started more processes than MPI's world has: srun without the
// right --mpi, torchrun, or mpiexec of another MPI. Each process would be a run of its own.
// A command that `trains` is refused beside SLURM_NTASKS above 1 too, if srun did not start it.
std::optional<Failure> check_world_size(const Slurm& slurm, const Environment& environment,
                                        std::string_view mpi_library, int64_t world, bool trains);

// Returns true if srun started this process by PMIx on several nodes, and neither SLURM_PMIX_FENCE
// nor the site chose PMIx's fence: slurm/job.sh says why the default one is not safe.
// site: the text of `scontrol show config`.
bool needs_pmix_fence(const Environment& environment, std::string_view site);

}  // namespace ringshard::job

#include "ringshard/job/slurm.hpp"

#include "ringshard/base/text.hpp"

namespace ringshard::job {

namespace {

std::optional<int64_t> whole_number(const std::optional<std::string>& digits) {
    return digits ? read_whole_number(*digits) : std::nullopt;
}

}  // namespace

bool is_first_task(const Environment& environment) {
    for (const auto* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
        if (const auto rank = environment.find(variable)) return *rank == "0";
    return !environment.find("SLURM_STEP_ID") ||
           environment.find("SLURM_PROCID").value_or("0") == "0";
}

Slurm read_slurm(const Environment& environment) {
    Slurm slurm;
    slurm.job_id = environment.find("SLURM_JOB_ID").value_or("");
    const auto array = environment.find("SLURM_ARRAY_JOB_ID");
    const auto element = environment.find("SLURM_ARRAY_TASK_ID");
    slurm.name_in_queue = array && element ? format_text("{}_{}", *array, *element) : slurm.job_id;
    slurm.restart_count = environment.find("SLURM_RESTART_COUNT").value_or("");
    slurm.cluster = environment.find("SLURM_CLUSTER_NAME").value_or("");
    slurm.node_list = environment.find("SLURM_JOB_NODELIST").value_or("");
    slurm.partition = environment.find("SLURM_JOB_PARTITION").value_or("");
    slurm.end_time = whole_number(environment.find("SLURM_JOB_END_TIME"));
    slurm.step_num_tasks = whole_number(environment.find("SLURM_STEP_NUM_TASKS"));
    const bool is_in_step = environment.find("SLURM_STEP_ID") && environment.find("SLURM_PROCID");
    const bool is_under_mpirun = environment.find("OMPI_COMM_WORLD_SIZE") ||
                                 environment.find("PMI_SIZE_MPIEXEC") ||
                                 environment.find("HYDRA_LAUNCHER_EXEC");
    slurm.started_by_srun = is_in_step && !is_under_mpirun;
    return slurm;
}

std::optional<Failure> check_launcher(const Slurm& slurm, const Environment& environment,
                                      std::string_view mpi_library) {
    const bool is_open_mpi = mpi_library.find("Open MPI") != std::string_view::npos;
    if (!slurm.started_by_srun || !is_open_mpi || environment.find("PMIX_NAMESPACE"))
        return std::nullopt;
    const auto used = environment.find("SLURM_MPI_TYPE");
    return Failure{
        ExitCode::settings,
        format_text("srun{} started {} tasks without telling them of each other: this program's "
                    "Open MPI needs PMIx; start with srun --mpi=pmix (or another pmix that `srun "
                    "--mpi=list` offers), or set RINGSHARD_MPI=pmix for the scripts in slurm/",
                    used ? " --mpi=" + *used : "", slurm.step_num_tasks.value_or(1))};
}

std::optional<Failure> check_world_size(const Slurm& slurm, int64_t world) {
    if (!slurm.started_by_srun || !slurm.step_num_tasks || *slurm.step_num_tasks == world)
        return std::nullopt;
    return Failure{ExitCode::settings,
                   format_text("SLURM started {} tasks in this step and MPI sees a world of {}: "
                               "srun and MPI use different process managers; start with srun "
                               "--mpi=pmix (or what `srun --mpi=list` offers for this MPI)",
                               *slurm.step_num_tasks, world)};
}

}  // namespace ringshard::job

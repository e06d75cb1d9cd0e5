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
    if (environment.find("WORLD_SIZE") && environment.find("LOCAL_RANK"))  // torchrun
        return environment.find("LOCAL_RANK") == "0";
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

namespace {

struct Launch {
    const char* variable;
    int64_t num_processes;
};

// Variables with which launchers tell each process how many they started.
std::optional<Launch> find_launch(const Environment& environment,
                                  std::initializer_list<const char*> variables) {
    for (const char* variable : variables)
        if (const auto count = whole_number(environment.find(variable)); count && *count > 0)
            return Launch{variable, *count};
    return std::nullopt;
}

Failure of_another_mpi(const Launch& launch, std::string_view mpi_library) {
    return {ExitCode::settings,
            format_text("{} = {}: a launcher started {} processes, and MPI sees a world of 1: the "
                        "launcher belongs to another MPI than this program's, which is {}; start "
                        "with the mpirun of this MPI, mpirun -n {}, or with srun --mpi=pmix",
                        launch.variable, launch.num_processes, launch.num_processes,
                        mpi_library.substr(0, mpi_library.find(',')), launch.num_processes)};
}

Failure of_torch(const Launch& launch) {
    return {ExitCode::settings,
            format_text("{} = {}: torchrun, accelerate launch or deepspeed started {} processes, "
                        "and MPI sees a world of 1: ranks of this program find one another by MPI; "
                        "start them with mpirun -n {}, in a SLURM job with srun --ntasks {}; for "
                        "one rank unset {}",
                        launch.variable, launch.num_processes, launch.num_processes,
                        launch.num_processes, launch.num_processes, launch.variable)};
}

Failure of_an_allocation(const Launch& launch) {
    return {ExitCode::settings,
            format_text("{} = {}: this job has {} tasks, and a command without srun starts one "
                        "process, which would train alone: put srun before it; for one rank, "
                        "srun --ntasks 1",
                        launch.variable, launch.num_processes, launch.num_processes)};
}

}  // namespace

std::optional<Failure> check_world_size(const Slurm& slurm, const Environment& environment,
                                        std::string_view mpi_library, int64_t world, bool trains) {
    if (slurm.started_by_srun && slurm.step_num_tasks && *slurm.step_num_tasks != world)
        return Failure{
            ExitCode::settings,
            format_text("SLURM started {} tasks in this step and MPI sees a world of {}: "
                        "srun and MPI use different process managers; start with srun "
                        "--mpi=pmix (or what `srun --mpi=list` offers for this MPI)",
                        *slurm.step_num_tasks, world)};
    if (world != 1) return std::nullopt;
    const auto mpi =
        find_launch(environment, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"});
    if (mpi && mpi->num_processes > 1) return of_another_mpi(*mpi, mpi_library);
    const auto torch = find_launch(environment, {"WORLD_SIZE"});
    if (torch && torch->num_processes > 1) return of_torch(*torch);
    const bool is_in_batch_shell = !slurm.job_id.empty() && !slurm.started_by_srun && !mpi;
    const auto allocation = find_launch(environment, {"SLURM_NTASKS", "SLURM_NPROCS"});
    if (trains && is_in_batch_shell && allocation && allocation->num_processes > 1)
        return of_an_allocation(*allocation);
    return std::nullopt;
}

bool needs_pmix_fence(const Environment& environment, std::string_view site) {
    const bool by_pmix = environment.find("PMIX_NAMESPACE").value_or("").starts_with("slurm.pmix");
    const auto num_nodes = whole_number(environment.find("SLURM_STEP_NUM_NODES"));
    if (!by_pmix || num_nodes.value_or(1) < 2 || environment.find("SLURM_PMIX_FENCE")) return false;
    for (const std::string& line : split(site, '\n'))
        if (line.starts_with("PMIxCollFence")) return !line.ends_with("= ring");
    return true;
}

}  // namespace ringshard::job

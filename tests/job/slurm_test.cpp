#include "ringshard/job/slurm.hpp"

#include <boost/test/unit_test.hpp>

using namespace ringshard;

namespace {

constexpr auto open_mpi = "Open MPI v4.1.4, package: Debian OpenMPI";

std::optional<Failure> check_world(const Environment::Variables& variables, int64_t world,
                                   bool trains = true) {
    const Environment environment(variables);
    return job::check_world_size(job::read_slurm(environment), environment, open_mpi, world,
                                 trains);
}

const std::map<std::string, std::string> step{{"SLURM_JOB_ID", "17"},
                                              {"SLURM_STEP_ID", "0"},
                                              {"SLURM_PROCID", "3"},
                                              {"SLURM_STEP_NUM_TASKS", "4"},
                                              {"SLURM_JOB_NODELIST", "hn[1-2]"}};
}  // namespace

BOOST_AUTO_TEST_CASE(ranks_that_srun_started_must_be_a_world) {
    const job::Slurm slurm = job::read_slurm(Environment(step));
    BOOST_TEST(slurm.started_by_srun);
    BOOST_TEST(slurm.job_id == "17");
    BOOST_TEST(!check_world(step, 4));
    const auto mismatch = check_world(step, 1);
    BOOST_TEST_REQUIRE(mismatch.has_value());
    BOOST_TEST(number(mismatch->code) == 78);
    BOOST_TEST(mismatch->message.find("srun --mpi=pmix") != std::string::npos);
}

// The last element of an array has the array's id, and squeue would answer for all of them.
BOOST_AUTO_TEST_CASE(an_element_of_an_array_has_a_name_of_its_own) {
    BOOST_TEST(job::read_slurm(Environment(step)).name_in_queue == "17");
    auto element = step;
    element["SLURM_ARRAY_JOB_ID"] = "17";
    element["SLURM_ARRAY_TASK_ID"] = "3";
    BOOST_TEST(job::read_slurm(Environment(element)).name_in_queue == "17_3");
    BOOST_TEST(job::read_slurm(Environment()).name_in_queue.empty());
}

BOOST_AUTO_TEST_CASE(a_batch_shell_is_no_step) {
    auto shell = step;
    shell.erase("SLURM_STEP_ID");
    BOOST_TEST(!job::read_slurm(Environment(shell)).started_by_srun);
    BOOST_TEST(!check_world(shell, 1));
}

// mpirun starts its daemons in a step of its own, one task per host.
BOOST_AUTO_TEST_CASE(mpirun_inside_an_allocation_is_not_srun) {
    auto under_mpirun = step;
    under_mpirun["OMPI_COMM_WORLD_SIZE"] = "8";
    BOOST_TEST(!check_world(under_mpirun, 8));
}

// Open MPI finds the other ranks through PMIx alone; without it it ends inside MPI_Init.
BOOST_AUTO_TEST_CASE(open_mpi_needs_pmix_from_srun) {
    const auto check = [](const Environment::Variables& variables, const char* library) {
        const Environment environment(variables);
        return job::check_launcher(job::read_slurm(environment), environment, library);
    };
    const auto unfit = check(step, open_mpi);
    BOOST_TEST_REQUIRE(unfit.has_value());
    BOOST_TEST(number(unfit->code) == 78);
    BOOST_TEST(unfit->message.find("srun --mpi=pmix") != std::string::npos);
    auto told = step;
    told["PMIX_NAMESPACE"] = "slurm.pmix.17.0";
    BOOST_TEST(!check(told, open_mpi));
    BOOST_TEST(!check(step, "MPICH Version: 4.0.2"));  // speaks PMI
    auto under_mpirun = step;
    under_mpirun["OMPI_COMM_WORLD_SIZE"] = "8";
    BOOST_TEST(!check(under_mpirun, open_mpi));
    BOOST_TEST(!check({}, open_mpi));
}

BOOST_AUTO_TEST_CASE(srun_on_several_nodes_needs_a_fence) {
    Environment::Variables by_pmix = step;
    by_pmix["PMIX_NAMESPACE"] = "slurm.pmix.17.0";
    by_pmix["SLURM_STEP_NUM_NODES"] = "2";
    BOOST_TEST(job::needs_pmix_fence(Environment(by_pmix), "MpiDefault = pmix"));
    BOOST_TEST(
        !job::needs_pmix_fence(Environment(by_pmix), "A = b\nPMIxCollFence           = ring\n"));
    BOOST_TEST(job::needs_pmix_fence(Environment(by_pmix), "PMIxCollFence           = (null)\n"));
    auto chosen = by_pmix;
    chosen["SLURM_PMIX_FENCE"] = "tree";
    BOOST_TEST(!job::needs_pmix_fence(Environment(chosen), ""));
    by_pmix["SLURM_STEP_NUM_NODES"] = "1";
    BOOST_TEST(!job::needs_pmix_fence(Environment(by_pmix), ""));
    BOOST_TEST(!job::needs_pmix_fence(Environment(step), ""));
}

BOOST_AUTO_TEST_CASE(no_slurm_at_all) { BOOST_TEST(!check_world({}, 5)); }

BOOST_AUTO_TEST_CASE(processes_of_a_launcher_without_mpi_do_not_train_alone) {
    const auto refused = [](const Environment::Variables& variables, const char* words) {
        const auto failure = check_world(variables, 1);
        return failure && number(failure->code) == 78 &&
               failure->message.find(words) != std::string::npos;
    };
    const Environment::Variables torchrun{{"WORLD_SIZE", "4"}, {"RANK", "1"}, {"LOCAL_RANK", "1"}};
    BOOST_TEST(refused(torchrun, "start them with mpirun -n 4"));
    BOOST_TEST(refused({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}, "which is Open MPI v4.1.4; start"));
    BOOST_TEST(refused({{"OMPI_COMM_WORLD_SIZE", "2"}}, "mpirun -n 2"));
    BOOST_TEST(!check_world(torchrun, 4));  // a script sets it for all ranks of srun
    BOOST_TEST(!check_world({{"WORLD_SIZE", "1"}}, 1));
    BOOST_TEST(!check_world({{"WORLD_SIZE", "many"}}, 1));
}

BOOST_AUTO_TEST_CASE(training_in_an_allocation_of_several_tasks_needs_srun) {
    Environment::Variables shell{{"SLURM_JOB_ID", "17"}, {"SLURM_NTASKS", "8"}};
    const auto failure = check_world(shell, 1);
    BOOST_TEST_REQUIRE(failure.has_value());
    BOOST_TEST(number(failure->code) == 78);
    BOOST_TEST(failure->message.find("put srun before it") != std::string::npos);
    BOOST_TEST(!check_world(shell, 1, false));  // doctor, plan
    auto under_mpirun = shell;
    under_mpirun["OMPI_COMM_WORLD_SIZE"] = "1";  // mpirun -n 1
    BOOST_TEST(!check_world(under_mpirun, 1));
    auto alone = step;  // srun --ntasks 1
    alone["SLURM_STEP_NUM_TASKS"] = "1";
    alone["SLURM_NTASKS"] = "8";
    BOOST_TEST(!check_world(alone, 1));
    shell["SLURM_NTASKS"] = "1";
    BOOST_TEST(!check_world(shell, 1));
}

BOOST_AUTO_TEST_CASE(one_task_speaks_before_mpi_does) {
    const auto speaks = [](const Environment::Variables& variables) {
        return job::is_first_task(Environment(variables));
    };
    BOOST_TEST(speaks({}));
    BOOST_TEST(!speaks(step));
    BOOST_TEST(speaks({{"SLURM_PROCID", "3"}}));  // a batch shell
    BOOST_TEST(!speaks({{"OMPI_COMM_WORLD_RANK", "1"}}));
    BOOST_TEST(!speaks({{"PMI_RANK", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}}));
    BOOST_TEST(speaks({{"PMIX_RANK", "0"}}));
    BOOST_TEST(!speaks({{"WORLD_SIZE", "2"}, {"RANK", "1"}, {"LOCAL_RANK", "1"}}));
    BOOST_TEST(speaks({{"LOCAL_RANK", "1"}}));
}

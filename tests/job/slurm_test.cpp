#include "ringshard/job/slurm.hpp"

#include <boost/test/unit_test.hpp>

using namespace ringshard;

namespace {
const std::map<std::string, std::string> step{{"SLURM_JOB_ID", "17"},
                                              {"SLURM_STEP_ID", "0"},
                                              {"SLURM_PROCID", "3"},
                                              {"SLURM_STEP_NUM_TASKS", "4"},
                                              {"SLURM_JOB_NODELIST", "hn[1-2]"}};
}

BOOST_AUTO_TEST_CASE(ranks_that_srun_started_must_be_a_world) {
    const job::Slurm slurm = job::read_slurm(Environment(step));
    BOOST_TEST(slurm.started_by_srun);
    BOOST_TEST(slurm.job_id == "17");
    BOOST_TEST(!job::check_world_size(slurm, 4));
    const auto mismatch = job::check_world_size(slurm, 1);
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
    BOOST_TEST(!job::check_world_size(job::read_slurm(Environment(shell)), 1));
}

// mpirun starts its daemons in a step of its own, one task per host.
BOOST_AUTO_TEST_CASE(mpirun_inside_an_allocation_is_not_srun) {
    auto under_mpirun = step;
    under_mpirun["OMPI_COMM_WORLD_SIZE"] = "8";
    BOOST_TEST(!job::check_world_size(job::read_slurm(Environment(under_mpirun)), 8));
}

// Open MPI finds the other ranks through PMIx alone; without it it ends inside MPI_Init.
BOOST_AUTO_TEST_CASE(open_mpi_needs_pmix_from_srun) {
    constexpr auto open_mpi = "Open MPI v4.1.4, package: Debian OpenMPI";
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

BOOST_AUTO_TEST_CASE(no_slurm_at_all) {
    BOOST_TEST(!job::check_world_size(job::read_slurm(Environment()), 5));
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
}

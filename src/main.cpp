#include <csignal>
#include <exception>
#include <string>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/terminate.hpp"
#include "ringshard/cli/agree_on_settings.hpp"
#include "ringshard/cli/engine.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/invocation.hpp"
#include "ringshard/cli/libtorch.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/comm/mpi_session.hpp"
#include "ringshard/config/env_setting.hpp"
#include "ringshard/device/environment.hpp"
#include "ringshard/job/slurm.hpp"

using namespace ringshard;

static int run_command_line(const std::vector<std::string>& arguments) {
    const Environment environment = Environment::of_this_process();
    const auto invocation = cli::read_invocation(arguments);
    if (!invocation || cli::is_front_command(invocation.value())) {
        if (!job::is_first_task(environment))
            return number(ExitCode::done);  // one answer is enough
        return invocation ? cli::run_front_command(invocation.value(), environment)
                          : cli::report_failure(invocation.failure());
    }

    const job::Slurm slurm = job::read_slurm(environment);
    const auto report_once = [&](const Failure& failure) {
        return job::is_first_task(environment) ? cli::report_failure(failure)
                                               : number(failure.code);
    };
    if (const auto unfit = job::check_launcher(slurm, environment, comm::mpi_library()))
        return report_once(*unfit);
    device::prepare_environment(environment);
    const comm::MpiSession mpi;  // an uncaught exception of any rank now ends the whole job
    const comm::Group& world = mpi.world();
    if (const auto mismatch = job::check_world_size(slurm, environment, comm::mpi_library(),
                                                    world.size(), invocation.value().trains()))
        return report_once(*mismatch);
    const auto agreed = cli::agree_on_settings(world, invocation.value(), environment);
    if (!agreed) return cli::report_failure(agreed.failure(), world);

    const Environment full = device::with_variables(
        environment, config::read_env(agreed.value().settings.values.run.env).value());
    const auto torch = comm::agreed(world, cli::find_libtorch(full));
    if (!torch) return cli::report_failure(torch.failure(), world);
    return cli::load_engine(torch.value(), full)(
        {invocation.value().command, agreed.value().settings, agreed.value().notes, full, world});
}

int main(int argc, char** argv) {
    std::set_terminate(end_process);
    std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of the write
    leave_process(run_command_line({argv + 1, argv + argc}));
}

#include <iostream>

#include "plan_args.hpp"
#include "ringshard/cli/engine.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/libtorch.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/env_setting.hpp"
#include "ringshard/config/resolve.hpp"
#include "ringshard/device/environment.hpp"

namespace ringshard::cli {

int plan(const Invocation& invocation, const Environment& environment) {
    const auto args = parse_plan_args(invocation.flags);
    if (!args) return report_failure(args.failure());
    const config::Resolution resolution =
        config::resolve(config::OptionTable(), args.value().settings, environment);
    if (!resolution.problems.empty()) return report_failure(config::summary(resolution.problems));
    for (const std::string& note : resolution.notes) std::cerr << "note: " << note << '\n';
    const Environment full = device::with_variables(
        environment, config::read_env(resolution.settings.values.run.env).value());
    const auto torch = find_libtorch(full);
    if (!torch) return report_failure(torch.failure());
    device::prepare_environment(full);
    const auto plan_in_engine = load_planner(torch.value(), full);
    return plan_in_engine({resolution.settings, full, args.value()});
}

}  // namespace ringshard::cli

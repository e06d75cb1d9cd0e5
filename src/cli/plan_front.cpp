#include <iostream>

#include "ringshard/cli/engine.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/libtorch.hpp"
#include "ringshard/cli/tell.hpp"
#include "ringshard/config/resolve.hpp"
#include "ringshard/device/environment.hpp"

namespace ringshard::cli {

int plan(const Invocation& invocation, const Environment& environment) {
    const auto wish = read_plan_wish(invocation.flags);
    if (!wish) return tell(wish.failure());
    const config::Resolution resolution =
        config::resolve(config::OptionTable(), wish.value().settings, environment);
    if (!resolution.problems.empty()) return tell(config::summary(resolution.problems));
    for (const std::string& note : resolution.notes) std::cerr << "note: " << note << '\n';
    const auto torch = find_libtorch(environment);
    if (!torch) return tell(torch.failure());
    device::prepare_environment(environment);
    const auto plan_in_engine = load_planner(torch.value());
    return plan_in_engine({resolution.settings, environment, wish.value()});
}

}  // namespace ringshard::cli

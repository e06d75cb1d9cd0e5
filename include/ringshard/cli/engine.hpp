#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/plan_args.hpp"

namespace ringshard::config {
class Settings;
}

namespace ringshard::cli {

// The engine is the library with all code that needs LibTorch. It is loaded when a command needs
// it, so that help and errors in settings come at once, on thousands of nodes too.
using EngineEntry = int(const run::CommandContext&);  // the exit code of this rank

// `torch` is what find_libtorch() found.
std::function<EngineEntry> load_engine(const std::filesystem::path& torch,
                                       const Environment& environment);

// The second entry point, for commands that need LibTorch and no MPI.
struct PlanContext {
    const config::Settings& settings;
    const Environment& environment;
    const run::PlanArgs& args;
};
using PlanEntry = int(const PlanContext&);

std::function<PlanEntry> load_planner(const std::filesystem::path& torch,
                                      const Environment& environment);

}  // namespace ringshard::cli

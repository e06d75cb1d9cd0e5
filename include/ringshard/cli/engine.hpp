#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"
#include "ringshard/cli/plan_wish.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::cli {

// The engine holds everything that needs LibTorch. It is loaded when a command needs it, so that
// help and wrong settings are told at once, on thousands of nodes too.
struct EngineCall {
    const std::string& command;
    const config::Settings& settings;
    const std::vector<std::string>& notes;  // from resolving the settings
    const Environment& environment;
    const comm::Group& world;
};

using EngineEntry = int(const EngineCall&);  // the exit code of this rank

// `torch` is what find_libtorch() found.
std::function<EngineEntry> load_engine(const std::filesystem::path& torch);

// The engine's other door: what needs LibTorch, and neither MPI nor a world.
struct PlanCall {
    const config::Settings& settings;
    const Environment& environment;
    const PlanWish& wish;
};
using PlanEntry = int(const PlanCall&);

std::function<PlanEntry> load_planner(const std::filesystem::path& torch);

}  // namespace ringshard::cli

#pragma once

#include <string>
#include <vector>

#include "ringshard/config/option_table.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::config {

// One of the adapters that a job trains together (--adapters), with the settings that a run of its
// own would have.
struct AdapterRun {
    std::string name;
    Settings settings;
};

// Returns the adapters that the settings of a job list; none where they name no file of adapters.
std::vector<AdapterRun> adapter_runs(const Settings& job, const OptionTable& table);

}  // namespace ringshard::config

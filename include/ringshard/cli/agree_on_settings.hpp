#pragma once

#include <string>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "ringshard/cli/invocation.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::cli {

struct AgreedSettings {
    config::Settings settings;
    std::vector<std::string> notes;
};

// Rank 0 resolves flags, files and environment; all ranks get the same settings, or the same
// failure. Collective over the world.
comm::Agreed<AgreedSettings> agree_on_settings(const comm::Group& world,
                                               const Invocation& invocation,
                                               const Environment& environment);

}  // namespace ringshard::cli

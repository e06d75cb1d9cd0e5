#pragma once

#include <set>
#include <string>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/exit_code.hpp"
#include "ringshard/config/named_texts.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::config {

struct Resolution {
    Settings settings;
    std::vector<std::string> notes;  // one line each, for the start-up report
    std::vector<Failure> problems;   // empty: the settings can be used
    std::set<std::string> broken;    // settings with a problem of their own, which have no value
};

// Brings together, weakest first: built-in defaults, profile, --config file, RINGSHARD_* variables,
// command line. Reads files; so one rank calls it and the others receive Settings::to_text().
Resolution resolve(const OptionTable& table, const std::vector<std::string>& command_line,
                   const Environment& environment);

// The same of what a settings file at `place` would say.
Resolution resolve(const OptionTable& table, const NamedTexts& settings, const std::string& place,
                   const Environment& environment);

// One message for all problems, with the exit code of the first.
Failure summary(const std::vector<Failure>& problems);

}  // namespace ringshard::config

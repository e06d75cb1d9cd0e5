#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/exit_code.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::config {

// Settings as the user wrote them: names and texts, in order.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;

struct Resolution {
    Settings settings;
    std::vector<std::string> notes;  // one line each, for the start-up report
    std::vector<Failure> problems;   // empty: the settings are valid
    std::set<std::string> broken;    // settings with an invalid value, which stay unset
};

// Merges the sources, weakest first: built-in defaults, profile, --config file, RINGSHARD_*
// variables, command line. Reads files, so one rank calls it and sends Settings::to_text() to the
// others.
Resolution resolve(const OptionTable& table, const std::vector<std::string>& command_line,
                   const Environment& environment);

// The content of a settings file, and a name for it.
struct SettingsText {
    std::string yaml;
    std::string place;
};

// The same with this text in place of a --config file.
Resolution resolve(const OptionTable& table, const std::vector<std::string>& command_line,
                   const Environment& environment, const SettingsText& file);

// The same with the content of a settings file, named `place`, as the only source.
Resolution resolve(const OptionTable& table, const NamedTexts& settings, const std::string& place,
                   const Environment& environment);

// Returns the names of the built-in profiles, sorted.
std::vector<std::string> profile_names();

// Returns one message for all problems, with the exit code of the first.
Failure summary(const std::vector<Failure>& problems);

}  // namespace ringshard::config

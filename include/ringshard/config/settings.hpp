#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ringshard/config/config.hpp"
#include "ringshard/config/option_table.hpp"

namespace ringshard::config {

// The sources of a value, weakest first.
enum class Strength { builtin, profile, config_file, environment, command_line };

struct Origin {
    Strength strength = Strength::builtin;
    std::string place =
        "default";  // "profile zero2", "run.yaml:3", "RINGSHARD_SEED", "command line"
};

// The settings of one run, resolved: typed values, and for everything that was given its text and
// where it came from.
class Settings {
public:
    struct Given {
        std::string text;
        Origin origin;
    };

    Config values;
    std::map<std::string, Given> given;  // by canonical name, served and accepted

    Origin origin_of(const std::string& name) const;
    // Given by the user for this run, and not by a profile written for many.
    bool is_fixed(const std::string& name) const {
        return origin_of(name).strength >= Strength::config_file;
    }

    // The same with one more that is said, as if on the command line. The value must be one that
    // the setting takes; rules between settings are not looked at.
    Settings with(const std::string& name, const std::string& text, const OptionTable& table) const;

    // Text that one rank reads and the others receive. from_text(to_text()) is the same settings.
    std::string to_text() const;
    static Settings from_text(const std::string& text, const OptionTable& table);
};

// A file for --config: what the user gave stands in it, the rest is shown as comments. What was
// given and has no effect is a comment that says so.
std::string print_yaml(const Settings& settings, const OptionTable& table);
// {"name": {"value": ..., "origin": ..., "given": true}, ...}: every served setting, and accepted
// ones that were given, with "has_effect": false.
std::string print_json(const Settings& settings, const OptionTable& table);

}  // namespace ringshard::config

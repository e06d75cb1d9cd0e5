#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ringshard/config/config.hpp"
#include "ringshard/config/option_table.hpp"

namespace ringshard::config {

// The sources of a value, weakest first.
enum class Strength { builtin, imported_default, profile, config_file, environment, command_line };

struct Origin {
    Strength strength = Strength::builtin;
    std::string place =
        "default";  // "profile zero2", "run.yaml:3", "RINGSHARD_SEED", "command line"
};

// The resolved settings of one run: typed values, and for every given setting its text and origin.
class Settings {
public:
    struct Given {
        std::string text;
        Origin origin;
    };

    Config values;
    std::map<std::string, Given> given;  // by canonical name, served and accepted

    Origin origin_of(const std::string& name) const;
    // Returns true if the user gave it for this run, and not in a profile, which serves many runs.
    bool is_fixed(const std::string& name) const {
        return origin_of(name).strength >= Strength::config_file;
    }

    // Returns these settings with one more, as if on the command line. Requires a valid value for
    // the setting; does not check rules between settings.
    Settings with(const std::string& name, const std::string& text, const OptionTable& table) const;
    // Returns the settings of a run on so many ranks: where train_batch_size is given and
    // gradient_accumulation_steps is not, it is what the rows of a step need.
    Settings on_ranks(int64_t world, const OptionTable& table) const;
    // Returns the settings of a run on GPUs: where none says what blocks keep and nothing forbids
    // it, activation_policy is auto.
    Settings on_gpus() const;

    // Serializes the settings, so that one rank reads them and sends them to the others.
    std::string to_text() const;
    static Settings from_text(const std::string& text, const OptionTable& table);
};

// Formats a file for --config: given settings as values, the others as comments. A given setting
// without effect becomes a comment that says so.
std::string print_yaml(const Settings& settings, const OptionTable& table);
// Formats a file for --config with the given settings alone, each with its origin as a comment.
std::string print_given(const Settings& settings, const OptionTable& table);
// Formats {"name": {"value": ..., "origin": ..., "given": true}, ...}: every served setting, and
// accepted ones that were given, with "has_effect": false.
std::string print_json(const Settings& settings, const OptionTable& table);

}  // namespace ringshard::config

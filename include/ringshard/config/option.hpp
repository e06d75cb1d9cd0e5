#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/config/config.hpp"

namespace ringshard::config {

enum class Treatment {
    served,
    accepted,  // known from TRL, Accelerate or DeepSpeed; harmless here, something else does its
               // work
    refused,   // known from there and not served: only a value that asks for nothing may be given
};

// Whether the losses of a run depend on a setting: a checkpoint records those on which they do, and
// a resumed run may not change them.
enum class LossRole {
    none,
    always,
    if_set,  // at its default it is not recorded: older checkpoints do not name it
};

enum class Shape { boolean, integer, number, word, list, json };

// One setting: everything the program knows about its name. There is one entry per setting in
// src/config/options/, and nowhere else.
struct Option {
    std::string name;
    std::string group;
    std::string help;
    Treatment treatment = Treatment::served;
    Shape shape = Shape::word;
    std::string default_text;
    LossRole loss_role = LossRole::none;  // served only
    bool can_be_null =
        false;  // null is a value of its own; for other settings it leaves the value open
    std::vector<std::string> choices;
    std::optional<double> minimum;
    bool minimum_excluded = false;
    std::optional<double> maximum;
    bool maximum_excluded = false;
    std::string reason;  // accepted: what stands in for it; refused: why
    std::vector<std::string>
        harmless_values;  // refused: values beside the default that ask for nothing
    std::map<std::string, std::string>
        refused_values;  // served: values known elsewhere, with the reason

    // Served only. `read` returns the rule that the text breaks, or nothing.
    std::function<std::optional<std::string>(const std::string& text, Config&)> read;
    std::function<std::string(const Config&)> write;

    Option& at_least(double bound) { return minimum = bound, *this; }
    Option& above(double bound) { return minimum = bound, minimum_excluded = true, *this; }
    Option& at_most(double bound) { return maximum = bound, *this; }
    Option& below(double bound) { return maximum = bound, maximum_excluded = true, *this; }
    Option& but_not(const std::vector<std::string>& values, const std::string& why) {
        for (const std::string& value : values) refused_values[value] = why;
        return *this;
    }
    // Values that help and completion name, where others are served too.
    Option& suggest(std::vector<std::string> values) { return choices = std::move(values), *this; }
    Option& shapes_loss() { return loss_role = LossRole::always, *this; }
    Option& shapes_loss_if_set() { return loss_role = LossRole::if_set, *this; }
    Option& also_harmless(std::vector<std::string> values) {
        return harmless_values = std::move(values), *this;
    }
};

// Another name for a setting.
struct Alias {
    std::string name;
    std::string target;
    Shape shape = Shape::word;
    std::map<std::string, std::string>
        values;        // if not empty: what each value means for the target
    std::string note;  // said when it is used; empty for a mere long form
};

// A setting that holds other settings: `fsdp_config: {fsdp_version: 2}` in a file; JSON, or the
// path of a JSON file, on a command line.
struct Block {
    std::string name;
    std::string group;
    std::string help;
    std::string prefix;                        // inside the block a name may be written without it
    std::map<std::string, std::string> names;  // inside the block only: what a name stands for
    bool may_stand_alone = false;              // `--fsdp` for `--fsdp true`
    // A DeepSpeed file is as weak as a profile, and has fields of its own.
    bool is_deepspeed_file = false;
};

// Settings of another program that share a prefix and are all refused.
struct RefusedFamily {
    std::string prefix;
    std::string reason;
};

}  // namespace ringshard::config

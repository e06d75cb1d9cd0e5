#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ringshard::config {

struct Config;

enum class Treatment {
    served,
    accepted,  // known from TRL, Accelerate or DeepSpeed; another mechanism does its work here
    refused,   // known from there, but not supported: only harmless values are allowed
};

// Says if the losses of a run depend on a setting. A checkpoint records the settings on which they
// depend, and a resumed run may not change them.
enum class LossRole {
    none,
    always,
    if_set,  // recorded unless default: older checkpoints do not name it
};

// The value that is taken in the place of one that only other programs have, and why.
struct Replacement {
    std::string value;
    std::string note;
};

enum class Shape { boolean, integer, number, word, list, json };

// One setting: its name, and everything that belongs to the name. src/config/options/ has one entry
// per setting.
struct Option {
    std::string name;
    std::string group;
    std::string help;
    Treatment treatment = Treatment::served;
    Shape shape = Shape::word;
    std::string default_text;
    LossRole loss_role = LossRole::none;  // served only
    bool can_be_null = false;  // null is a value of its own; for other settings it means "not set"
    std::vector<std::string> choices;
    std::optional<double> minimum;
    bool minimum_excluded = false;
    std::optional<double> maximum;
    bool maximum_excluded = false;
    std::string reason;                        // accepted: its replacement here; refused: why
    std::vector<std::string> harmless_values;  // refused: allowed values besides the default
    std::map<std::string, std::string>
        refused_values;  // served: values known elsewhere but refused, with the reason
    std::map<std::string, Replacement> replacements;  // served: values known elsewhere
    // Served, a list: words other than these are left out, with `reason`; empty: all are kept.
    std::vector<std::string> kept_words;
    // Accepted: a run without it is another layout or precision of the same training, so a report
    // names the value, and strict_launch refuses it.
    bool is_replaced = false;

    // For served settings. `read` returns the rule that the text breaks, or nothing.
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
    // Takes `as` in the place of these values; `note` says why.
    Option& takes(const std::vector<std::string>& values, const std::string& as,
                  const std::string& note) {
        for (const std::string& value : values) replacements[value] = {as, note};
        return *this;
    }
    Option& keeps_words(std::vector<std::string> words, std::string why) {
        return kept_words = std::move(words), reason = std::move(why), *this;
    }
    // Sets values that help and completion list, although other values are allowed too.
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
    std::map<std::string, std::string> values;  // if not empty: the target's value for each value
    std::string note;               // printed when it is used; empty for a mere long form
    std::optional<double> below{};  // values that are not below it mean something else: refused
    std::string why_below{};
};

// A setting that contains other settings: `fsdp_config: {fsdp_version: 2}` in a file; JSON, or the
// path of a JSON file, on a command line.
struct Block {
    std::string name;
    std::string group;
    std::string help;
    std::string prefix;                        // may be left out inside the block
    std::map<std::string, std::string> names;  // full names of names that are valid only inside
    bool may_stand_alone = false;              // `--fsdp` for `--fsdp true`
    // A DeepSpeed file has the strength of a profile, and its own fields.
    bool is_deepspeed_file = false;
    // The setting, a mapping, that takes the members that are no settings; empty: none may be.
    std::string collects{};
};

// Settings of another program with a common prefix, all refused.
struct RefusedFamily {
    std::string prefix;
    std::string reason;
};

}  // namespace ringshard::config

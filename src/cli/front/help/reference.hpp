#pragma once

#include <string>
#include <vector>

#include "ringshard/config/option_table.hpp"

// The description of every setting, for help, the manual page and docs/settings.md.
namespace ringshard::cli {

struct ReferenceEntry {
    std::string name;
    std::string value;  // its placeholder or choices: "N", "bfd|wrapped"; empty if `text` has them
    std::string usual;  // the default; empty: there is none
    std::string text;
    bool is_flag = true;

    std::string shown() const { return (is_flag ? "--" : "") + name; }
};

struct ReferenceSection {
    std::string title;
    std::string about;  // may be empty
    std::vector<ReferenceEntry> entries;

    std::string topic() const;  // its name after --help: "precision"
};

// Groups of settings that are served first, then other names, then what is known from elsewhere.
std::vector<ReferenceSection> settings_reference(const config::OptionTable& table);

// The value of a setting, as a placeholder or as its choices.
std::string value_shown(const config::Option& option);

// Lines of at most 80 columns, all but the first with so many blanks before them.
std::string wrapped(const std::string& text, size_t indent, size_t first_column);

}  // namespace ringshard::cli

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/config/resolve.hpp"

namespace ringshard::config {

// A file that describes many runs. `settings` hold for all runs. One of `grid` (every combination
// of the values, the last name fastest), `list` (one by one) and `random` (`count` draws from
// `over`, reproducible by seed) gives their differences.
struct Sweep {
    std::string name;  // `name`, or the file's name
    NamedTexts common;
    std::vector<NamedTexts> runs;  // without the common settings
    bool is_one_job = false;       // `one_job`: the runs are adapters that train together

    // Returns all settings of a run; its own ones override the common ones.
    NamedTexts all_settings(size_t index) const;
    // Returns the settings of the one job: the common ones, with the runs as `adapters`.
    NamedTexts settings_of_one_job() const;
};
Expected<Sweep> read_sweep(const std::filesystem::path& file);

// Formats a settings file (--config).
std::string to_settings_file(const NamedTexts& settings);

}  // namespace ringshard::config

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/config/named_texts.hpp"

namespace ringshard::config {

// A file that describes many runs. `settings` hold for all of them; in what they differ is said by
// one of `grid` (every combination of the values, the last name fastest), `list` (one by one) and
// `random` (`count` draws over `over`; equal seeds draw the same).
struct Sweep {
    std::string name;  // `name`, or how the file is called
    NamedTexts common;
    std::vector<NamedTexts> runs;  // without the common ones

    // All that a run sets; what it says itself is stronger.
    NamedTexts all_settings(size_t index) const;
};
Expected<Sweep> read_sweep(const std::filesystem::path& file);

// A settings file (--config) that says this.
std::string to_settings_file(const NamedTexts& settings);

}  // namespace ringshard::config
